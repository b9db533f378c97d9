import type { QueryResultRow } from 'pg';
import type { DatabaseConnection } from './connection.ts';
import type { Statement } from './session.ts';

/** Several connections for statements that do not depend on one another, such as reads. */
export class ConnectionPool {
  #connections: readonly [DatabaseConnection, ...DatabaseConnection[]];

  constructor(connections: readonly [DatabaseConnection, ...DatabaseConnection[]]) {
    this.#connections = connections;
  }

  /** Runs one statement on the connection with the fewest calls. Throws the errors of `DatabaseConnection.query`. */
  query = <Row extends QueryResultRow>(statement: Statement, values?: unknown[]): Promise<Row[]> => {
    const load = ({ isFailing, waiting }: DatabaseConnection) =>
      isFailing ? Number.POSITIVE_INFINITY : waiting;
    const best = this.#connections.reduce((one, other) => (load(other) < load(one) ? other : one));
    return best.query(statement, values);
  };

  /** Completes the calls in flight. Later calls are rejected. */
  async close(): Promise<void> {
    await Promise.all(this.#connections.map((connection) => connection.close()));
  }
}
