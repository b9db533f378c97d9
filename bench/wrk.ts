import type { Bench } from './bench.ts';
import { cpuSeconds, runCommand } from './processes.ts';
import { peer, type Server } from './servers.ts';

export const NO_WRK = 'wrk is missing: apt install wrk, or brew install wrk';

/**
 * What wrk sends, and with how many connections; `keyed`: another Idempotency-Key with each request; `paths`: a file with
 * the paths that are asked for in turn, each in a line, and from the root on.
 */
export type Load = {
  path: string;
  connections: number;
  method?: 'GET' | 'POST';
  keyed?: boolean;
  paths?: string | undefined;
};

const SECONDS = 1;
/** What runs often is compiled again, better, for seconds on end. */
const WARM_UP_SECONDS = 5;

export type Burst = {
  /** Requests a second. */
  rate: number;
  /** Microseconds of the server's CPU time for a request; undefined where there is no /proc. */
  cpu: number | undefined;
};

/**
 * Loads a server for a second, or for longer to warm it up.
 *
 * @throws where a request fails
 */
export async function burst(
  { lab, onCore }: Bench,
  server: Server,
  load: Load,
  isWarmUp: boolean,
): Promise<Burst> {
  const seconds = isWarmUp ? WARM_UP_SECONDS : SECONDS;
  const { path, connections, method = 'GET', keyed = false, paths } = load;
  const before = cpuSeconds(server.pid);
  const { stdout } = await runCommand(
    lab,
    [
      ...onCore(1),
      ...['wrk', '-t1', `-c${connections}`, `-d${seconds}s`, '-s', peer('wrk.lua'), `${server.url}${path}`],
      ...['--', method],
      ...(keyed ? ['keys', `bench-${performance.now()}-`] : []),
      ...(paths ? ['paths', paths] : []),
    ],
    { env: { ...lab.env, PETS_API_KEY: server.key } },
  );
  const after = cpuSeconds(server.pid);
  const { requests, microseconds, failed } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
  if (failed > 0 || requests === 0) throw new Error(`${failed} of ${requests} requests of ${path} failed`);
  const cpu = before === undefined || after === undefined ? undefined : ((after - before) * 1e6) / requests;
  return { rate: (requests * 1e6) / microseconds, cpu };
}
