import type { Bench, Suite } from '../bench.ts';
import { inTurns } from '../measure.ts';
import { missing, type Row, ratio, whereKnown } from '../rows.ts';
import { peer, type Server, serve, start } from '../servers.ts';
import { burst, type Load, NO_WRK } from '../wrk.ts';

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
    const prefix = bench.onCore(0);
    const bare = await start(bench.lab, { prefix, args: [peer('bare-server.mjs')] });
    const ours = await start(bench.lab, { prefix, args: serve('--ephemeral') });
    const rows: Row[] = [];
    for (const variant of variants) rows.push(...(await compare(bench, ours, bare, variant)));
    await Promise.all([ours.stop(), bare.stop()]);
    return rows;
  },
};

async function compare(
  bench: Bench,
  ours: Server,
  bare: Server,
  { what, load, least }: Variant,
): Promise<Row[]> {
  const samples = await inTurns(bench.rounds, {
    ours: (isWarmUp) => burst(bench, ours, { path: '/pets', ...load }, isWarmUp),
    bare: (isWarmUp) => burst(bench, bare, { path: '/pets', ...load }, isWarmUp),
  });
  const rates = (side: 'ours' | 'bare') => samples[side].map(({ rate }) => rate);
  const cpu = (side: 'ours' | 'bare') => samples[side].map(({ cpu }) => cpu);
  const title = `durable POST, ${what}`;
  const ofCpu = `${title}: CPU time a request ÷ bare server`;
  return [
    ratio(`${title}: rate ÷ bare server`, '/s', rates('ours'), rates('bare'), least ? { least } : undefined),
    whereKnown(ofCpu, [cpu('ours'), cpu('bare')], (a = [], b = []) => ratio(ofCpu, 'µs', a, b)),
  ];
}
