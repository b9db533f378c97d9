import { redactKey } from '../output/redact.ts';
import type { Connection, ProxySetting } from '../profiles/profile.ts';

/** Adds the connection that was used to an error. The API key is redacted from the message, but not from the cause. */
export class CallError extends Error {
  readonly connection: Connection;

  readonly proxy: ProxySetting | undefined;

  /** A variable such as ALL_PROXY, which pets does not support. */
  readonly ignoredProxy: string | undefined;

  /** Replaces the hint that `describeError` would choose. */
  readonly hint: string | undefined;

  constructor(
    cause: unknown,
    connection: Connection,
    {
      proxy,
      ignoredProxy,
      hint,
    }: { proxy?: ProxySetting | undefined; ignoredProxy?: string | undefined; hint?: string } = {},
  ) {
    super(redactKey(cause instanceof Error ? cause.message : String(cause), connection.key), { cause });
    this.connection = connection;
    this.proxy = proxy;
    this.ignoredProxy = ignoredProxy;
    this.hint = hint;
  }
}
