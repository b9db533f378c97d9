import type { Bench, Suite } from '../bench.ts';
import { inTurns } from '../measure.ts';
import { processorTime } from '../processes.ts';
import { type Row, ratio, rowIfKnown } from '../rows.ts';
import { ready, type Server, serve as serveArgs, start } from '../servers.ts';
import { compareRates, type Load, STARTS, timesPerRequest, underLoad } from '../wrk.ts';

const SECONDS = 2;

type Variant = { what: string; load: Load; options: string[] };

const variants: readonly Variant[] = [
  { what: 'GET, 20 animals', load: { method: 'GET', connections: 32 }, options: ['--seed'] },
  {
    what: 'durable POST with an Idempotency-Key',
    load: { method: 'POST', connections: 32, keyed: true },
    options: [],
  },
];

/** Compares `pets serve`, which records requests, with `pets serve --no-page`. */
export const tools: Suite = {
  usesPeers: false,
  async run(bench) {
    const rows: Row[] = [await compareStarts(bench)];
    for (const variant of variants) {
      rows.push(
        await compareRates(bench, {
          what: `${variant.what}: rate ÷ --no-page`,
          least: 0.95,
          start: async () => {
            const { ours, off } = await startBoth(bench, variant);
            return {
              ours: underLoad(bench, variant.load, ours),
              peer: underLoad(bench, variant.load, off),
            };
          },
        }),
      );
      if (bench.wrk) rows.push(await compareTimes(bench, variant));
    }
    return rows;
  },
};

async function compareStarts({ lab, rounds }: Bench): Promise<Row> {
  const until = (...options: string[]) => {
    return () => ready(() => start(lab, { args: serveArgs('--ephemeral', ...options) }));
  };
  const { ours, off } = await inTurns(rounds, { ours: until(), off: until('--no-page') });
  return ratio('ready (spawn to first 200) ÷ --no-page', 'ms', ours, off, { most: 1.05 });
}

async function compareTimes(bench: Bench, variant: Variant): Promise<Row> {
  const samples: { ours: number | undefined; off: number | undefined }[] = [];
  for (let part = 0; part < STARTS; part++) {
    const servers = await startBoth(bench, variant);
    const measure = (server: Server) => async () => {
      const contestant = underLoad(bench, variant.load, server);
      const [time] = await timesPerRequest(contestant, SECONDS, () => [processorTime(server.pid)]);
      return time;
    };
    const { ours, off } = await inTurns(Math.ceil(bench.rounds / STARTS), {
      ours: measure(servers.ours),
      off: measure(servers.off),
    });
    samples.push(...ours.map((time, i) => ({ ours: time, off: off[i] })));
    await Promise.all([servers.ours.stop(), servers.off.stop()]);
  }
  const name = `${variant.what}: processor time per request ÷ --no-page`;
  const sides = [samples.map(({ ours }) => ours), samples.map(({ off }) => off)];
  return rowIfKnown(name, sides, (ours = [], off = []) => ratio(name, 'µs', ours, off, { most: 1.05 }));
}

async function startBoth(
  { lab, onCore }: Bench,
  { options }: Variant,
): Promise<{ ours: Server; off: Server }> {
  const prefix = onCore(0);
  return {
    ours: await start(lab, { prefix, args: serveArgs('--ephemeral', ...options) }),
    off: await start(lab, { prefix, args: serveArgs('--ephemeral', '--no-page', ...options) }),
  };
}
