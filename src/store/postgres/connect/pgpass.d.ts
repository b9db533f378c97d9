declare module 'pgpass/lib/helper.js' {
  type Connection = { host: string; port: number; database: string; user: string };
  type Env = Readonly<Record<string, string | undefined>>;
  type Callback = (password: string | undefined) => void;
  const helper: {
    /** The path in `PGPASSFILE`, or that of `.pgpass` in `HOME`. */
    getFileName(env: Env): string;
    /** Whether the file is regular, others have no access to it, and `PGPASSWORD` is not set. */
    usePgPass(stats: import('node:fs').Stats, path: string): boolean;
    getPassword(connection: Connection, file: NodeJS.ReadableStream, callback: Callback): void;
    /** Sets the stream for warnings, which is stderr by default. */
    warnTo(stream: NodeJS.WritableStream | undefined): void;
  };
  export default helper;
}
