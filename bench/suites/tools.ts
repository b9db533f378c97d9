import type { Suite } from '../bench.ts';
import type { Row } from '../rows.ts';
import { serve as serveArgs, start } from '../servers.ts';
import { compareRates, type Load, underLoad } from '../wrk.ts';

const variants: readonly { what: string; load: Load; options: string[] }[] = [
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
    const { lab, onCore } = bench;
    const rows: Row[] = [];
    for (const { what, load, options } of variants) {
      rows.push(
        await compareRates(bench, {
          what: `${what}: rate ÷ --no-page`,
          least: 0.95,
          async start() {
            const prefix = onCore(0);
            const ours = await start(lab, { prefix, args: serveArgs('--ephemeral', ...options) });
            const off = await start(lab, { prefix, args: serveArgs('--ephemeral', '--no-page', ...options) });
            return { ours: underLoad(bench, load, ours), peer: underLoad(bench, load, off) };
          },
        }),
      );
    }
    return rows;
  },
};
