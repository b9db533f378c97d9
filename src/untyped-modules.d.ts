// Importing `undici` loads the whole library, which slows down commands. So pets imports single files, which have no types.
declare module 'undici/lib/dispatcher/agent.js' {
  export { Agent as default } from 'undici';
}
declare module 'undici/lib/core/connect.js' {
  export { buildConnector as default } from 'undici';
}
declare module 'undici/lib/api/api-connect.js' {
  import { Dispatcher } from 'undici';
  export default function connect(
    this: Dispatcher,
    options: Dispatcher.ConnectOptions,
  ): Promise<Dispatcher.ConnectData>;
}
declare module 'undici/lib/dispatcher/pool.js' {
  export { Pool as default } from 'undici';
}
declare module 'undici/lib/dispatcher/proxy-agent.js' {
  export { ProxyAgent as default } from 'undici';
}
declare module 'pgpass/lib/index.js' {
  type Connection = { host: string; port: number; database: string; user: string };
  /** Looks up a password in the password file of PostgreSQL. Except on Windows, ignores a file that others can access. */
  export default function pgpass(connection: Connection, callback: (password?: string) => void): void;
}
