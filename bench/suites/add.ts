import type { Suite } from '../bench.ts';
import type { Row } from '../rows.ts';
import { peer, serve as serveArgs, start } from '../servers.ts';
import { compareRates, type Load, underLoad } from '../wrk.ts';

const variants: readonly { what: string; load: Load; least: number }[] = [
  {
    what: '32 connections, each request with an Idempotency-Key',
    load: { method: 'POST', connections: 32, keyed: true },
    least: 0.6,
  },
  { what: '32 connections', load: { method: 'POST', connections: 32 }, least: 0.75 },
  { what: 'one connection', load: { method: 'POST', connections: 1 }, least: 0.75 },
];

/** Compares durable `POST /v1/pets` with a bare server. Both respond after a sync, on the same file system. */
export const add: Suite = {
  usesPeers: false,
  async run(bench) {
    const { lab, onCore } = bench;
    const rows: Row[] = [];
    for (const { what, load, least } of variants) {
      rows.push(
        await compareRates(bench, {
          what: `durable POST, ${what}: rate ÷ bare server`,
          least,
          async start() {
            const prefix = onCore(0);
            const ours = await start(lab, { prefix, args: serveArgs('--ephemeral', '--no-page') });
            const bare = await start(lab, { prefix, args: [peer('bare-server.mjs')] });
            return { ours: underLoad(bench, load, ours), peer: underLoad(bench, load, bare) };
          },
        }),
      );
    }
    return rows;
  },
};
