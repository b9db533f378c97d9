declare module 'pgpass' {
  type Connection = { host: string; port: number; database: string; user: string };
  /** Finds the password of a connection in `PGPASSFILE` or `~/.pgpass`. */
  function pgpass(connection: Connection, callback: (password: string | undefined) => void): void;
  namespace pgpass {
    /** Sets the stream for warnings, which is stderr by default. */
    function warnTo(stream: NodeJS.WritableStream | undefined): unknown;
  }
  export default pgpass;
}
