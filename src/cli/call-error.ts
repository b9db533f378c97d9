import { withoutKey } from './profiles/profile.ts';
import type { Connection } from './profiles/resolve.ts';

/** An error of a call, with the connection that it happened on: explain.ts names the server and the key. */
export class CallError extends Error {
  readonly connection: Connection;

  constructor(cause: unknown, connection: Connection) {
    super(withoutKey(cause instanceof Error ? cause.message : String(cause), connection.key), { cause });
    this.connection = connection;
  }
}
