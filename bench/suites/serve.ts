import { encodeCursor } from '../../src/server/cursor.ts';
import { writeStore } from '../animals.ts';
import type { Bench, Suite } from '../bench.ts';
import { inTurns } from '../measure.ts';
import { flat, missing, type Row, ratio, whereKnown } from '../rows.ts';
import { peer, type Server, serve as serveArgs, start } from '../servers.ts';
import { type Burst, burst, NO_WRK } from '../wrk.ts';

const CONNECTIONS = 32;
const PAGE = '/pets?limit=20';
const SIZES = { '1 thousand': 1_000, '1 million': 1_000_000 };
/** What the others are to be as fast as. */
const ONE = '1 thousand, first page';

/** The bare server is loaded anew before so many others: what slows the machine down for seconds meets both. */
const NEAR = 2;
const bareOf = (index: number) => `bare ${Math.floor(index / NEAR)}`;

type Target = { server: Server; path: string };

/** `GET /v1/pets?limit=20` under load: all servers run at once, and one of them is loaded at a time. */
export const serve: Suite = {
  usesPeers: true,
  async run(bench) {
    if (!bench.wrk) return [missing('GET /v1/pets?limit=20 ÷ bare server', NO_WRK)];
    const { lab } = bench;
    const prefix = bench.onCore(0);
    const bare = await start(lab, { prefix, args: [peer('bare-server.mjs')] });
    const ours = await startOurs(bench, prefix);
    const peers: Record<string, Target> = {};
    for (const { name, path, launch } of bench.peers) peers[name] = { server: await launch(prefix), path };
    const targets = Object.entries({ ...ours, ...peers });
    const load = (target: Target) => (isWarmUp: boolean) =>
      burst(bench, target.server, { path: target.path, connections: CONNECTIONS }, isWarmUp);
    const samples = await inTurns(
      bench.rounds,
      Object.fromEntries(
        targets.flatMap(([name, target], i) => [
          ...(i % NEAR === 0 ? [[bareOf(i), load({ server: bare, path: PAGE })] as const] : []),
          [name, load(target)] as const,
        ]),
      ),
    );
    const servers = new Set([bare, ...targets.map(([, { server }]) => server)]);
    await Promise.all([...servers].map((server) => server.stop()));
    return rowsOf(samples, Object.keys(ours), Object.keys(peers));
  },
};

/** A service of each size, with four pages: the first and one deep in the cursor, with and without a filter. */
async function startOurs({ lab }: Bench, prefix: readonly string[]): Promise<Record<string, Target>> {
  const targets: Record<string, Target> = {};
  for (const [size, count] of Object.entries(SIZES)) {
    const directory = lab.path(`store-${count}`);
    const secret = writeStore(directory, count, 'seeded');
    const server = await start(lab, { prefix, args: serveArgs('--data', directory) });
    const after = Math.floor((count * 3) / 4);
    for (const [place, cursor] of [
      ['first page', ''],
      ['deep', `&cursor=${encodeCursor(BigInt(after), secret)}`],
    ]) {
      for (const [filter, status] of [
        ['', ''],
        [', one status', '&status=available'],
      ]) {
        const path = `${PAGE}${status}${cursor}`;
        await expectPage(server, path, cursor ? after : 0);
        targets[`${size}, ${place}${filter}`] = { server, path };
      }
    }
  }
  return targets;
}

/** @throws where a page does not have 20 animals behind the id `after` */
async function expectPage({ url, key }: Server, path: string, after: number): Promise<void> {
  const reply = await fetch(`${url}${path}`, { headers: { Authorization: `Bearer ${key}` } });
  const pets = (await reply.json()) as { id: number }[];
  const isRight = pets.length === 20 && pets.every(({ id }) => id > after && id <= after + 60);
  if (!isRight) throw new Error(`${path} answered ${reply.status} ${JSON.stringify(pets)}`);
}

function rowsOf(samples: Record<string, Burst[]>, ours: string[], peers: string[]): Row[] {
  const rates = (name: string) => (samples[name] ?? []).map(({ rate }) => rate);
  const cpu = (name: string) => (samples[name] ?? []).map(({ cpu }) => cpu);
  const bare = (name: string) => bareOf([...ours, ...peers].indexOf(name));
  const others = ours.filter((name) => name !== ONE);
  const flatCpu = `flat: CPU time a request of the other seven ÷ (${ONE})`;
  const within5 = { least: 0.95, most: 1.05 };
  return [
    ...ours.map((name) =>
      ratio(`GET, ${name}: rate ÷ bare server`, '/s', rates(name), rates(bare(name)), {
        least: 0.75,
      }),
    ),
    flat(`flat: rate of the other seven ÷ (${ONE})`, others.map(rates), rates(ONE), within5),
    ...ours.map((name) => {
      const what = `GET, ${name}: CPU time a request ÷ bare server`;
      return whereKnown(what, [cpu(name), cpu(bare(name))], (a = [], b = []) => ratio(what, 'µs', a, b));
    }),
    whereKnown(flatCpu, [cpu(ONE), ...others.map(cpu)], (one = [], ...rest) =>
      flat(flatCpu, rest, one, within5),
    ),
    ...peers.map((name) =>
      ratio(`GET: rate of ${name} ÷ bare server`, '/s', rates(name), rates(bare(name)), 'peer'),
    ),
  ];
}
