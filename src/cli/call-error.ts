import { withoutKey } from './profiles/profile.ts';
import type { Connection } from './profiles/resolve.ts';

/** An error of a call, with the connection that it happened on: explain.ts names the server and the key. */
export class CallError extends Error {
  readonly connection: Connection;

  /** Instead of the next step that the cause alone would have. */
  readonly hint: string | undefined;

  constructor(cause: unknown, connection: Connection, hint?: string) {
    super(withoutKey(cause instanceof Error ? cause.message : String(cause), connection.key), { cause });
    this.connection = connection;
    this.hint = hint;
  }
}
