import type { Bench, Suite } from '../bench.ts';
import { afresh, inTurns } from '../measure.ts';
import { missing, type Row, ratio, whereKnown } from '../rows.ts';
import { peer, type Server, serve, start } from '../servers.ts';
import { type Burst, burst, type Load, NO_WRK } from '../wrk.ts';

const LEAST = 0.8;

type Variant = { what: string; load: Omit<Load, 'path'>; least?: number };

const variants: readonly Variant[] = [
  { what: '32 connections', load: { method: 'POST', connections: 32 }, least: LEAST },
  { what: 'one connection', load: { method: 'POST', connections: 1 }, least: LEAST },
  {
    what: '32 connections, each with an Idempotency-Key',
    load: { method: 'POST', connections: 32, keyed: true },
  },
];

/** Durable `POST /v1/pets`: every answer waits for its sync, on both sides and on one file system. */
export const add: Suite = {
  usesPeers: false,
  async run(bench) {
    if (!bench.wrk) return variants.map(({ what }) => missing(`durable POST, ${what}`, NO_WRK));
    const samples = await afresh(bench.rounds, (rounds) => measure(bench, rounds));
    return variants.flatMap((variant) => rowsOf(variant, samples));
  },
};

/** What was measured of each variant, on both sides. */
type Samples = Record<string, Burst[]>;

async function measure(bench: Bench, rounds: number): Promise<Samples> {
  const prefix = bench.onCore(0);
  const bare = await start(bench.lab, { prefix, args: [peer('bare-server.mjs')] });
  const ours = await start(bench.lab, { prefix, args: serve('--ephemeral') });
  const samples: Samples = {};
  for (const { what, load } of variants) {
    const add = (server: Server) => (isWarmUp: boolean) =>
      burst(bench, server, { path: '/pets', ...load }, isWarmUp);
    Object.assign(
      samples,
      await inTurns(rounds, { [`${what}, ours`]: add(ours), [`${what}, bare`]: add(bare) }),
    );
  }
  await Promise.all([ours.stop(), bare.stop()]);
  return samples;
}

function rowsOf({ what, least }: Variant, samples: Samples): Row[] {
  const [ours = [], bare = []] = [samples[`${what}, ours`], samples[`${what}, bare`]];
  const rates = (bursts: Burst[]) => bursts.map(({ rate }) => rate);
  const cpu = (bursts: Burst[]) => bursts.map(({ cpu }) => cpu);
  const title = `durable POST, ${what}`;
  const ofCpu = `${title}: CPU time a request ÷ bare server`;
  return [
    ratio(`${title}: rate ÷ bare server`, '/s', rates(ours), rates(bare), least ? { least } : undefined),
    whereKnown(ofCpu, [cpu(ours), cpu(bare)], (a = [], b = []) => ratio(ofCpu, 'µs', a, b)),
  ];
}
