import { withoutKey } from '../profiles/profile.ts';
import type { Connection } from '../profiles/resolve.ts';

/** An error of a call, with the connection that it happened on: explain-call.ts names the server and the key. */
export class CallError extends Error {
  readonly connection: Connection;

  /** Host and port of the proxy that the environment names for the server. */
  readonly proxy: string | undefined;

  /** Instead of the next step that the cause alone would have. */
  readonly hint: string | undefined;

  constructor(
    cause: unknown,
    connection: Connection,
    { proxy, hint }: { proxy?: string | undefined; hint?: string } = {},
  ) {
    super(withoutKey(cause instanceof Error ? cause.message : String(cause), connection.key), { cause });
    this.connection = connection;
    this.proxy = proxy;
    this.hint = hint;
  }
}
