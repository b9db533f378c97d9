import { closeSync, openSync, readFileSync } from 'node:fs';
import { writeStore } from '../animals.ts';
import type { Bench, Suite } from '../bench.ts';
import { inTurns } from '../measure.ts';
import { runMeasured } from '../processes.ts';
import { difference, type Row, ratio } from '../rows.ts';
import { peer, pets, serve, start } from '../servers.ts';

const COUNT = 100_000;

/** Measures the rate and the peak memory of listing 100,000 animals, page by page, into a file. */
export const listAll: Suite = {
  usesPeers: false,
  async run({ lab, rounds }: Bench): Promise<Row[]> {
    const directory = lab.path('store-100000');
    writeStore(directory, COUNT, 'seeded');
    const server = await start(lab, { args: serve('--data', directory) });
    const env = { ...lab.env, PETS_BASE_URL: server.url, PETS_API_KEY: server.key };
    const output = lab.path('output');
    const run = (args: string[], count: number) => async () => {
      const stdout = openSync(output, 'w');
      const { milliseconds, megabytes } = await runMeasured(lab, args, { env, stdout });
      closeSync(stdout);
      const found = readFileSync(output, 'latin1').split('"id":').length - 1;
      if (found !== count) throw new Error(`${args.join(' ')} wrote ${found} animals`);
      return { rate: (count * 1_000) / milliseconds, megabytes };
    };
    const { all, undici, one } = await inTurns(rounds, {
      all: run([pets, 'list', '--all', '--ndjson'], COUNT),
      undici: run([peer('list-all-with-undici.mjs')], COUNT),
      one: run([pets, 'list', '--json', '--limit', '100'], 100),
    });
    await server.stop();
    type Run = (typeof all)[number];
    const rates = (runs: Run[]) => runs.map(({ rate }) => rate);
    const peaks = (runs: Run[]) => runs.map(({ megabytes }) => megabytes);
    return [
      ratio(
        'pets list --all --ndjson, 100,000 animals: rate ÷ the same pages with undici',
        '/s',
        rates(all),
        rates(undici),
        {
          least: 0.6,
        },
      ),
      difference(
        'pets list --all --ndjson: peak memory (RSS) − that of pets list --json --limit 100',
        'MB',
        peaks(all),
        peaks(one),
        {
          most: 40,
        },
      ),
    ];
  },
};
