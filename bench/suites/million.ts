import { JOURNAL_FILE } from '../../src/store/journal/format.ts';
import { type Origin, writeStore } from '../animals.ts';
import type { Bench, Suite } from '../bench.ts';
import { inTurns } from '../measure.ts';
import { peakMegabytes, runMeasured } from '../processes.ts';
import { type Row, ratio, rowIfKnown } from '../rows.ts';
import { peer, serve, start } from '../servers.ts';

const COUNT = 1_000_000;
const kinds: Record<Origin, string> = {
  seeded: 'seeded, 1,000 per line',
  added: 'added, one per line with an idempotency key',
};

/** Measures a start with a journal of a million animals: the time to the first response with 200, and peak memory. */
export const million: Suite = {
  usesPeers: false,
  async run(bench) {
    const rows: Row[] = [];
    for (const origin of ['seeded', 'added'] as const) rows.push(...(await compare(bench, origin)));
    return rows;
  },
};

async function compare({ lab, rounds }: Bench, origin: Origin): Promise<Row[]> {
  const directory = lab.path(`store-${origin}`);
  writeStore(directory, COUNT, origin);
  const samples = await inTurns<'ours' | 'parse', { seconds: number; megabytes: number | undefined }>(
    rounds,
    {
      ours: async () => {
        const server = await start(lab, { args: serve('--data', directory) });
        const megabytes = peakMegabytes(server.pid);
        await server.stop();
        return { seconds: server.milliseconds / 1_000, megabytes };
      },
      parse: async () => {
        const args = [peer('parse-lines.mjs'), lab.path(`store-${origin}`, JOURNAL_FILE)];
        const { milliseconds, megabytes } = await runMeasured(lab, args, { stdout: 'ignore' });
        return { seconds: milliseconds / 1_000, megabytes };
      },
    },
  );
  const seconds = (side: 'ours' | 'parse') => samples[side].map(({ seconds }) => seconds);
  const megabytes = (side: 'ours' | 'parse') => samples[side].map(({ megabytes }) => megabytes);
  const memory = `start with 1 million animals (${kinds[origin]}): peak memory ÷ that of the same script`;
  return [
    ratio(
      `start with 1 million animals (${kinds[origin]}) ÷ JSON.parse of each line`,
      's',
      seconds('ours'),
      seconds('parse'),
      {
        most: 1.4,
      },
    ),
    rowIfKnown(memory, [megabytes('ours'), megabytes('parse')], (ours = [], parse = []) =>
      ratio(memory, 'MB', ours, parse, { most: 1.5 }),
    ),
  ];
}
