import { writeFileSync } from 'node:fs';
import { encodeCursor } from '../../src/server/cursor.ts';
import { writeStore } from '../animals.ts';
import type { Bench, Suite } from '../bench.ts';
import type { Lab } from '../lab.ts';
import { afresh, inTurns } from '../measure.ts';
import { flat, missing, type Reach, type Row, ratio, whereKnown } from '../rows.ts';
import { peer, type Server, serve as serveArgs, start } from '../servers.ts';
import { type Burst, burst, NO_WRK, SECONDS, WARM_UP_SECONDS } from '../wrk.ts';

const CONNECTIONS = 32;
const PAGE = '/pets?limit=20';
const SIZES = { '1 thousand': 1_000, '1 million': 1_000_000 };
/** What the others are to be as fast as. */
const ONE = '1 thousand, first page';
const WALK = '1 million, each time another page';

/** How many pages are asked for in turn: many more than a service might remember. */
const WALK_PAGES = 10_000;

/** All pages together warm a server up. */
const WARM_UP_SECONDS_A_PAGE = 2;

/** `paths`: a file with those that are asked for in turn. */
type Target = { server: Server; path: string; paths?: string };

/** What was measured of each page, and of the bare server next to it: its name, and `bare: ` before it. */
type Samples = Record<string, Burst[]>;

/** `GET /v1/pets?limit=20` under load: each page, and each peer, in turns with the bare server. */
export const serve: Suite = {
  usesPeers: true,
  async run(bench) {
    if (!bench.wrk) return [missing('GET /v1/pets?limit=20 ÷ bare server', NO_WRK)];
    const samples = await afresh(bench.rounds, (rounds) => measureOurs(bench, rounds));
    return rowsOf(samples, await measurePeers(bench));
  },
};

/** All pages in every round, so that what the machine does between two rounds makes none of them differ. */
async function measureOurs(bench: Bench, rounds: number): Promise<Samples> {
  const prefix = bench.onCore(0);
  const bare = await start(bench.lab, { prefix, args: [peer('bare-server.mjs')] });
  const targets = await startOurs(bench, prefix);
  const contestants: Parameters<typeof inTurns<string, Burst>>[1] = Object.fromEntries(
    Object.entries(targets).flatMap(([name, target]) => [
      [name, load(bench, target, WARM_UP_SECONDS_A_PAGE)],
      [`bare: ${name}`, load(bench, { ...target, server: bare }, WARM_UP_SECONDS_A_PAGE)],
    ]),
  );
  const samples = await inTurns(rounds, contestants);
  await stopAll([bare, ...Object.values(targets).map(({ server }) => server)]);
  return samples;
}

/** One after the other: V8 forgets what it has compiled of a server that rests. */
async function measurePeers(bench: Bench): Promise<Samples> {
  const prefix = bench.onCore(0);
  const bare = await start(bench.lab, { prefix, args: [peer('bare-server.mjs')] });
  const samples: Samples = {};
  for (const { name, path, launch } of bench.peers) {
    const target = { server: await launch(prefix), path };
    Object.assign(
      samples,
      await inTurns(bench.rounds, {
        [name]: load(bench, target, WARM_UP_SECONDS),
        [`bare: ${name}`]: load(bench, { ...target, server: bare }, WARM_UP_SECONDS),
      }),
    );
    await target.server.stop();
  }
  await bare.stop();
  return samples;
}

const load =
  (bench: Bench, { server, ...what }: Target, warmUpSeconds: number) =>
  (isWarmUp: boolean): Promise<Burst> =>
    burst(bench, server, { ...what, connections: CONNECTIONS }, isWarmUp ? warmUpSeconds : SECONDS);

async function stopAll(servers: readonly Server[]): Promise<void> {
  await Promise.all([...new Set(servers)].map((server) => server.stop()));
}

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

function rowsOf(ours: Samples, peers: Samples): Row[] {
  const rates = (bursts: Burst[] = []) => bursts.map(({ rate }) => rate);
  const cpu = (bursts: Burst[] = []) => bursts.map(({ cpu }) => cpu);
  const namesOf = (samples: Samples) => Object.keys(samples).filter((name) => !name.startsWith('bare: '));
  const rate = (what: string, of: Samples, name: string, reach?: Reach) =>
    ratio(what, '/s', rates(of[name]), rates(of[`bare: ${name}`]), reach);
  const pages = namesOf(ours);
  const others = pages.filter((name) => name !== ONE && name !== WALK);
  return [
    ...pages.map((name) =>
      rate(`GET, ${name}: rate ÷ bare server`, ours, name, name === WALK ? undefined : { least: 0.75 }),
    ),
    flat(
      `flat: rate of the other seven ÷ ${ONE}`,
      others.map((name) => rates(ours[name])),
      rates(ours[ONE]),
      { least: 0.95, most: 1.05 },
    ),
    ...pages.map((name) => {
      const what = `GET, ${name}: CPU time a request ÷ bare server`;
      return whereKnown(what, [cpu(ours[name]), cpu(ours[`bare: ${name}`])], (a = [], b = []) =>
        ratio(what, 'µs', a, b),
      );
    }),
    ...namesOf(peers).map((name) => rate(`GET: rate of ${name} ÷ bare server`, peers, name, 'peer')),
  ];
}
