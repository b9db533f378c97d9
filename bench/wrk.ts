import type { Bench } from './bench.ts';
import { runCommand } from './processes.ts';
import { missing, type Row, ratio } from './rows.ts';
import { peer, type Server } from './servers.ts';

/**
 * The requests that wrk sends. With `keyed`, each has an Idempotency-Key of its own. `paths` names a file with one path
 * per line; wrk requests them in turn.
 */
export type Load = { method: 'GET' | 'POST'; connections: number; keyed?: boolean; paths?: string };

/** A running server and the requests that it gets. */
export type Target = { server: Server; load: Load };

const WARM_UP_SECONDS = 6;
const ROUND_SECONDS = 2;
const PEER_SECONDS = 1;
/** How often the servers are started. V8 optimises each process differently, so one process is not representative. */
const STARTS = 3;

/**
 * Measures requests per second of `pets serve` relative to a peer. A round measures the peer for one second, `pets serve`
 * for two seconds, and the peer again for one second. `start` starts both servers, which are then warmed up.
 */
export async function compareRates(
  bench: Bench,
  { what, least, start }: { what: string; least: number; start(): Promise<{ ours: Target; peer: Target }> },
): Promise<Row> {
  if (!bench.wrk) return missing(what, 'wrk is missing: apt install wrk, or brew install wrk');
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let part = 0; part < STARTS; part++) {
    const rounds =
      Math.floor(((part + 1) * bench.rounds) / STARTS) - Math.floor((part * bench.rounds) / STARTS);
    if (rounds === 0) continue;
    const targets = await start();
    await measureRate(bench, targets.ours, WARM_UP_SECONDS);
    await measureRate(bench, targets.peer, WARM_UP_SECONDS);
    for (let round = 0; round < rounds; round++) {
      const before = await measureRate(bench, targets.peer, PEER_SECONDS);
      ours.push(await measureRate(bench, targets.ours, ROUND_SECONDS));
      theirs.push((before + (await measureRate(bench, targets.peer, PEER_SECONDS))) / 2);
    }
    await Promise.all([targets.ours.server.stop(), targets.peer.server.stop()]);
  }
  return ratio(what, '/s', ours, theirs, { least });
}

/** Returns how many requests per second the server handles. @throws if a request fails */
async function measureRate(
  { lab, onCore }: Bench,
  { server, load }: Target,
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
