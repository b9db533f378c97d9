import { writeFileSync } from 'node:fs';
import { stringifyJson } from '../../src/contract/json.ts';
import { animal, writeStore } from '../animals.ts';
import type { Bench, Suite } from '../bench.ts';
import { inTurns } from '../measure.ts';
import { processorTime } from '../processes.ts';
import { type Row, ratio, rowIfKnown } from '../rows.ts';
import { peer, type Server, serve as serveArgs, start } from '../servers.ts';
import { type Contestant, compareRates, timesPerRequest, underLoad } from '../wrk.ts';

const ANIMALS = 20_000;
const PAGES = 1_000;

const WARM_UP_SECONDS = 3;
const SECONDS = 3;

/** The options of a server, and its maximum processor time relative to that of the minimal server. */
const variants = [
  { what: 'without the page', options: ['--no-page'], most: 1.25 },
  { what: 'with the page, which records the requests', options: [], most: 1.5 },
];

/**
 * Compares `GET /v1/pets?limit=20` for all pages in turn with servers that do the same work: one written by hand, and one
 * with fastify if it is installed.
 */
export const serve: Suite = {
  usesPeers: true,
  async run(bench) {
    const { lab } = bench;
    writeStore(lab.path('store'), ANIMALS, 'seeded');
    const pets = Array.from({ length: ANIMALS }, (_, i) => animal(i + 1));
    writeFileSync(lab.path('animals.json'), stringifyJson({ pets }));
    const rate = await compareRates(bench, {
      what: 'GET, 1,000 pages in turn: rate ÷ minimal server',
      least: 0.8,
      start: async () => {
        const [ours, minimal] = [await startOurs(bench, ['--no-page']), await startMinimal(bench)];
        return { ours: await underPages(bench, ours), peer: await underPages(bench, minimal) };
      },
    });
    return bench.wrk ? [rate, ...(await compareTimes(bench))] : [rate];
  },
};

const startOurs = ({ lab, onCore }: Bench, options: readonly string[]): Promise<Server> =>
  start(lab, { prefix: onCore(0), args: serveArgs('--data', lab.path('store'), ...options) });

const startMinimal = (bench: Bench) => startPeer(bench, 'minimal-server.mjs');

const startPeer = ({ lab, onCore }: Bench, file: string): Promise<Server> =>
  start(lab, { prefix: onCore(0), args: [peer(file), lab.path('animals.json')] });

/** Compares processor times. Each sample has its own server, because V8 compiles code differently in each process. */
async function compareTimes(bench: Bench): Promise<Row[]> {
  const sample = (startServer: () => Promise<Server>) => async () => {
    const server = await startServer();
    const contestant = await underPages(bench, server);
    await contestant.rate(WARM_UP_SECONDS);
    const [time] = await timesPerRequest(contestant, SECONDS, () => [processorTime(server.pid)]);
    await server.stop();
    return time;
  };
  const contestants = { minimal: sample(() => startMinimal(bench)) } as Record<
    string,
    () => Promise<number | undefined>
  >;
  for (const { what, options } of variants) contestants[what] = sample(() => startOurs(bench, options));
  const hasFastify = bench.peers.some(({ name }) => name === 'fastify');
  if (hasFastify) contestants.fastify = sample(() => startPeer(bench, 'fastify-server.mjs'));
  const { minimal = [], fastify = [], ...ours } = await inTurns(bench.rounds, contestants);
  const rows = variants.map(({ what, most }) => {
    const name = `GET, 1,000 pages in turn, ${what}: processor time ÷ minimal server`;
    return rowIfKnown(name, [ours[what] ?? [], minimal], (mine = [], theirs = []) =>
      ratio(name, 'µs', mine, theirs, { most }),
    );
  });
  if (!hasFastify) return rows;
  const name = 'GET, 1,000 pages in turn, without the page: processor time ÷ fastify server';
  const withoutPage = ours['without the page'] ?? [];
  return [
    ...rows,
    rowIfKnown(name, [withoutPage, fastify], (mine = [], theirs = []) => ratio(name, 'µs', mine, theirs)),
  ];
}

/** A contestant: the server, with requests for all of its pages in turn as its load. */
async function underPages(bench: Bench, server: Server): Promise<Contestant> {
  const file = bench.lab.path(`paths-${server.pid}`);
  const paths = await pagesOf(server);
  writeFileSync(file, paths.map((path) => `${path}\n`).join(''));
  return underLoad(bench, { method: 'GET', connections: 32, paths: file }, server);
}

/** Returns the paths of all pages, which it finds by their links. Checks that the pages have all animals in order. */
async function pagesOf(server: Server): Promise<string[]> {
  const paths: string[] = [];
  let animals = 0;
  for (let next: string | undefined = '/v1/pets?limit=20'; next !== undefined; ) {
    paths.push(next);
    const reply: Response = await fetch(new URL(next, server.url), {
      headers: { Authorization: `Bearer ${server.key}` },
    });
    for (const { id } of (await reply.json()) as { id: number }[]) {
      if (id !== ++animals) throw new Error(`${server.url}${next}: found animal ${id} instead of ${animals}`);
    }
    next = /<(.+)>; rel="next"/.exec(reply.headers.get('link') ?? '')?.[1];
  }
  if (paths.length !== PAGES) throw new Error(`${server.url} has ${paths.length} pages instead of ${PAGES}`);
  return paths;
}
