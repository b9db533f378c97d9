declare module 'pgpass/lib/index.js' {
  type Connection = { host: string; port: number; database: string; user: string };
  /** Looks up a password in the file that `PGPASSFILE` names, or in ~/.pgpass. Warns on stderr if others can read it. */
  export default function pgpass(connection: Connection, callback: (password?: string) => void): void;
}
