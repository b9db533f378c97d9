import { writeFileSync } from 'node:fs';
import { encodeCursor } from '../../src/server/cursor.ts';
import { writeStore } from '../animals.ts';
import type { Bench, Suite } from '../bench.ts';
import type { Lab } from '../lab.ts';
import { afresh, inTurns, ratios } from '../measure.ts';
import { flat, missing, type Reach, type Row, ratio, whereKnown } from '../rows.ts';
import { peer, type Server, serve as serveArgs, start } from '../servers.ts';
import { type Burst, burst, NO_WRK } from '../wrk.ts';

const CONNECTIONS = 32;
const PAGE = '/pets?limit=20';
const sizes = [
  { name: '1 thousand', count: 1_000 },
  { name: '1 million', count: 1_000_000 },
];
/** What the others are to be as fast as. */
const ONE = '1 thousand, first page';
const WALK = '1 million, each time another page';

/** How many pages are asked for in turn: many more than a service might remember. */
const WALK_PAGES = 10_000;

/** `paths`: a file with those that are asked for in turn. */
type Target = { server: Server; path: string; paths?: string };
type Targets = Record<string, Target>;
type Size = (typeof sizes)[number];

/** What was measured of each page, or peer, and of the bare server next to it. */
type Samples = Record<string, { theirs: Burst; bare: Burst }[]>;

/** `GET /v1/pets?limit=20` under load: each page, and each peer, in turns with the bare server. */
export const serve: Suite = {
  usesPeers: true,
  async run(bench) {
    if (!bench.wrk) return [missing('GET /v1/pets?limit=20 ÷ bare server', NO_WRK)];
    const samples = await afresh(bench.rounds, (rounds) => measureOurs(bench, rounds));
    return rowsOf(samples, await measurePeers(bench));
  },
};

/** One size after the other, and its pages in every round: V8 forgets what it has compiled of a server that rests. */
async function measureOurs(bench: Bench, rounds: number): Promise<Samples> {
  const bare = await start(bench.lab, { prefix: bench.onCore(0), args: [peer('bare-server.mjs')] });
  const samples: Samples = {};
  for (const size of sizes) {
    const { server, pages, walk } = await startOurs(bench, size);
    Object.assign(samples, await inTurns(rounds, besideBare(bench, pages, bare)));
    Object.assign(samples, await inTurns(rounds, besideBare(bench, walk, bare)));
    await server.stop();
  }
  await bare.stop();
  return samples;
}

async function measurePeers(bench: Bench): Promise<Samples> {
  const prefix = bench.onCore(0);
  const bare = await start(bench.lab, { prefix, args: [peer('bare-server.mjs')] });
  const samples: Samples = {};
  for (const { name, path, launch } of bench.peers) {
    const server = await launch(prefix);
    const target = { [name]: { server, path } };
    Object.assign(samples, await inTurns(bench.rounds, besideBare(bench, target, bare)));
    await server.stop();
  }
  await bare.stop();
  return samples;
}

/** Each of the targets together with the bare server, which comes first every second time. */
function besideBare(bench: Bench, targets: Targets, bare: Server) {
  return Object.fromEntries(
    Object.entries(targets).map(([name, target]) => {
      let isBareFirst = false;
      const load = ({ server, ...what }: Target, isWarmUp: boolean) =>
        burst(bench, server, { ...what, connections: CONNECTIONS }, isWarmUp);
      const measure = async (isWarmUp: boolean) => {
        isBareFirst = !isBareFirst;
        const before = isBareFirst && (await load({ ...target, server: bare }, isWarmUp));
        const theirs = await load(target, isWarmUp);
        return { theirs, bare: before || (await load({ ...target, server: bare }, isWarmUp)) };
      };
      return [name, measure];
    }),
  );
}

/** A service with four pages: the first and one deep in the cursor, with and without a filter; and the larger with a walk. */
async function startOurs({ lab, onCore }: Bench, { name, count }: Size) {
  const directory = lab.path(`store-${count}`);
  const secret = writeStore(directory, count, 'seeded');
  const server = await start(lab, { prefix: onCore(0), args: serveArgs('--data', directory) });
  const after = Math.floor((count * 3) / 4);
  const pages: Targets = {};
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
      pages[`${name}, ${place}${filter}`] = { server, path };
    }
  }
  const walk: Targets = {};
  if (count >= WALK_PAGES) walk[WALK] = { server, path: PAGE, paths: writeWalk(lab, count, secret) };
  return { server, pages, walk };
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

function rowsOf(ours: Samples, peers: Samples): Row[] {
  const rates = (of: Samples, name: string, side: 'theirs' | 'bare') =>
    (of[name] ?? []).map((pair) => pair[side].rate);
  const cpu = (name: string, side: 'theirs' | 'bare') => (ours[name] ?? []).map((pair) => pair[side].cpu);
  const rate = (what: string, of: Samples, name: string, reach?: Reach) =>
    ratio(what, '/s', rates(of, name, 'theirs'), rates(of, name, 'bare'), reach);
  const relative = (name: string) => ratios(rates(ours, name, 'theirs'), rates(ours, name, 'bare'));
  const pages = Object.keys(ours);
  const others = pages.filter((name) => name !== ONE && name !== WALK);
  return [
    ...pages.map((name) =>
      rate(`GET, ${name}: rate ÷ bare server`, ours, name, name === WALK ? undefined : { least: 0.75 }),
    ),
    // Each size was measured at another time: what is held against another is the ratio to the bare server.
    flat(`flat: rate ÷ bare server of the other seven ÷ (${ONE})`, others.map(relative), relative(ONE), {
      least: 0.95,
      most: 1.05,
    }),
    ...pages.map((name) => {
      const what = `GET, ${name}: CPU time a request ÷ bare server`;
      return whereKnown(what, [cpu(name, 'theirs'), cpu(name, 'bare')], (a = [], b = []) =>
        ratio(what, 'µs', a, b),
      );
    }),
    ...Object.keys(peers).map((name) => rate(`GET: rate of ${name} ÷ bare server`, peers, name, 'peer')),
  ];
}
