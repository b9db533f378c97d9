import type { Bench } from './bench.ts';
import { runCommand } from './processes.ts';
import { missing, type Row, ratio } from './rows.ts';
import { peer, type Server } from './servers.ts';

/**
 * The requests that wrk sends. With `keyed`, each has an Idempotency-Key of its own. `paths` names a file with one path
 * per line; wrk requests them in turn.
 */
export type Load = { method: 'GET' | 'POST'; connections: number; keyed?: boolean; paths?: string };

/** A running program whose rate is measured. */
export type Contestant = {
  /** Puts load on the program, and returns how many requests it handles per second. */
  rate(seconds: number): Promise<number>;
  stop(): Promise<void>;
};

const WARM_UP_SECONDS = 6;
const ROUND_SECONDS = 2;
const PEER_SECONDS = 1;
/** How often the servers are started. V8 optimizes each process differently, so one process is not representative. */
const STARTS = 3;

/**
 * Measures requests per second of `pets serve` relative to a peer. A round measures the peer for one second, `pets
 * serve` for two seconds, and the peer again for one second. `start` starts both, which are then warmed up.
 */
export async function compareRates(
  bench: Bench,
  {
    what,
    start,
    ...bounds
  }: {
    what: string;
    least?: number;
    most?: number;
    start(): Promise<{ ours: Contestant; peer: Contestant }>;
  },
): Promise<Row> {
  if (!bench.wrk) return missing(what, 'wrk is missing: apt install wrk, or brew install wrk');
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let part = 0; part < STARTS; part++) {
    const rounds =
      Math.floor(((part + 1) * bench.rounds) / STARTS) - Math.floor((part * bench.rounds) / STARTS);
    if (rounds === 0) continue;
    const contestants = await start();
    await contestants.ours.rate(WARM_UP_SECONDS);
    await contestants.peer.rate(WARM_UP_SECONDS);
    for (let round = 0; round < rounds; round++) {
      const before = await contestants.peer.rate(PEER_SECONDS);
      ours.push(await contestants.ours.rate(ROUND_SECONDS));
      theirs.push((before + (await contestants.peer.rate(PEER_SECONDS))) / 2);
    }
    await Promise.all([contestants.ours.stop(), contestants.peer.stop()]);
  }
  return ratio(what, '/s', ours, theirs, bounds);
}

/**
 * Puts load on a program, and returns the processor time per request of each process in microseconds. `times` returns
 * the processor times of the processes so far, in milliseconds. Both return undefined for a time that is not known.
 */
export async function timesPerRequest(
  contestant: Contestant,
  seconds: number,
  times: () => readonly (number | undefined)[],
): Promise<(number | undefined)[]> {
  const before = times();
  const requests = (await contestant.rate(seconds)) * seconds;
  return times().map((after, i) => {
    const start = before[i];
    return after === undefined || start === undefined ? undefined : ((after - start) * 1_000) / requests;
  });
}

/** Servers that get the same requests at the same time. Their rates are added. */
export const underLoad = (bench: Bench, load: Load, ...servers: readonly Server[]): Contestant => ({
  async rate(seconds) {
    const rates = await Promise.all(servers.map((server) => measureRate(bench, server, load, seconds)));
    return rates.reduce((sum, rate) => sum + rate, 0);
  },
  async stop() {
    await Promise.all(servers.map((server) => server.stop()));
  },
});

/** Returns how many requests per second the server handles. @throws if a request fails */
async function measureRate(
  { lab, onCore }: Bench,
  server: Server,
  load: Load,
  seconds: number,
): Promise<number> {
  const { method, connections, keyed = false, paths } = load;
  const { stdout } = await runCommand(
    lab,
    [
      ...onCore(1),
      ...['wrk', '-t1', `-c${connections}`, `-d${seconds}s`, '-s', peer('wrk.lua'), `${server.url}/pets`],
      ...['--', method],
      ...(keyed ? ['keys', `bench-${performance.now()}-`] : []),
      ...(paths ? ['paths', paths] : []),
    ],
    { env: { ...lab.env, PETS_API_KEY: server.key } },
  );
  const { requests, microseconds, failed } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
  if (failed > 0 || requests === 0)
    throw new Error(`${failed} of ${requests} requests to ${server.url} failed`);
  return (requests * 1e6) / microseconds;
}
