import { writeFileSync } from 'node:fs';
import { encodeCursor } from '../../src/server/cursor.ts';
import { writeStore } from '../animals.ts';
import type { Bench, Suite } from '../bench.ts';
import type { Lab } from '../lab.ts';
import { inTurns, ratios } from '../measure.ts';
import { flat, missing, type Row, ratio, whereKnown } from '../rows.ts';
import { peer, type Server, serve as serveArgs, start } from '../servers.ts';
import { type Burst, burst, NO_WRK } from '../wrk.ts';

const CONNECTIONS = 32;
const PAGE = '/pets?limit=20';
const SIZES = { '1 thousand': 1_000, '1 million': 1_000_000 };
/** What the others are to be as fast as. */
const ONE = '1 thousand, first page';
const WALK = '1 million, each time another page';

/** How many pages are asked for in turn: many more than a service might remember. */
const WALK_PAGES = 10_000;

/** `paths`: a file with those that are asked for in turn. */
type Target = { server: Server; path: string; paths?: string };

/** What was measured of a page, and of the bare server in turns with it. */
type Pair = { ours: Burst[]; bare: Burst[] };

/**
 * `GET /v1/pets?limit=20` under load: all servers run at once, and each page is measured in turns with the bare server
 * alone, as V8 forgets what it has compiled of a server that rests.
 */
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
    const load =
      ({ server, ...what }: Target) =>
      (isWarmUp: boolean) =>
        burst(bench, server, { ...what, connections: CONNECTIONS }, isWarmUp);
    const pairs: Record<string, Pair> = {};
    for (const [name, target] of targets) {
      pairs[name] = await inTurns(bench.rounds, {
        ours: load(target),
        bare: load({ ...target, server: bare }),
      });
    }
    const servers = new Set([bare, ...targets.map(([, { server }]) => server)]);
    await Promise.all([...servers].map((server) => server.stop()));
    return rowsOf(pairs, Object.keys(ours), Object.keys(peers));
  },
};

/**
 * A service of each size, with four pages: the first and one deep in the cursor, with and without a filter; and at the
 * larger one a walk.
 */
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
    if (count < WALK_PAGES) continue;
    targets[WALK] = { server, path: PAGE, paths: writeWalk(lab, count, secret) };
  }
  return targets;
}

/** A file with the paths of the pages one behind the other, and where it is. */
function writeWalk(lab: Lab, count: number, secret: string): string {
  const file = lab.path('walk');
  const step = Math.floor(count / WALK_PAGES);
  const paths = Array.from({ length: WALK_PAGES }, (_, i) => {
    return `/v1${PAGE}&cursor=${encodeCursor(BigInt(i * step), secret)}\n`;
  });
  writeFileSync(file, paths.join(''));
  return file;
}

/** @throws where a page does not have 20 animals behind the id `after` */
async function expectPage({ url, key }: Server, path: string, after: number): Promise<void> {
  const reply = await fetch(`${url}${path}`, { headers: { Authorization: `Bearer ${key}` } });
  const pets = (await reply.json()) as { id: number }[];
  const isRight = pets.length === 20 && pets.every(({ id }) => id > after && id <= after + 60);
  if (!isRight) throw new Error(`${path} answered ${reply.status} ${JSON.stringify(pets)}`);
}

function rowsOf(pairs: Record<string, Pair>, ours: string[], peers: string[]): Row[] {
  const of = (name: string): Pair => pairs[name] ?? { ours: [], bare: [] };
  const rates = (bursts: Burst[]) => bursts.map(({ rate }) => rate);
  const cpu = (bursts: Burst[]) => bursts.map(({ cpu }) => cpu);
  // Each page was measured at another time: what is held against another is its ratio to the bare server.
  const relative = (name: string) => ratios(rates(of(name).ours), rates(of(name).bare));
  const others = ours.filter((name) => name !== ONE && name !== WALK);
  return [
    ...ours.map((name) =>
      ratio(
        `GET, ${name}: rate ÷ bare server`,
        '/s',
        rates(of(name).ours),
        rates(of(name).bare),
        name === WALK ? undefined : { least: 0.75 },
      ),
    ),
    flat(`flat: rate ÷ bare server of the other seven ÷ (${ONE})`, others.map(relative), relative(ONE), {
      least: 0.95,
      most: 1.05,
    }),
    ...ours.map((name) => {
      const what = `GET, ${name}: CPU time a request ÷ bare server`;
      return whereKnown(what, [cpu(of(name).ours), cpu(of(name).bare)], (a = [], b = []) =>
        ratio(what, 'µs', a, b),
      );
    }),
    ...peers.map((name) =>
      ratio(`GET: rate of ${name} ÷ bare server`, '/s', rates(of(name).ours), rates(of(name).bare), 'peer'),
    ),
  ];
}
