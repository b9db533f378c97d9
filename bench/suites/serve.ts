import { writeFileSync } from 'node:fs';
import { stringifyJson } from '../../src/contract/json.ts';
import { animal, writeStore } from '../animals.ts';
import type { Bench, Suite } from '../bench.ts';
import type { Lab } from '../lab.ts';
import { peer, type Server, serve as serveArgs, start } from '../servers.ts';
import { type Contestant, compareRates, type Load, underLoad } from '../wrk.ts';

const ANIMALS = 20_000;
const PAGES = 1_000;

/** Compares `GET /v1/pets?limit=20` for all pages in turn with a hand-written server that does the same work. */
export const serve: Suite = {
  usesPeers: false,
  run: async (bench) => [
    await compareRates(bench, {
      what: 'GET, 1,000 pages in turn: rate ÷ minimal server',
      least: 0.8,
      start: () => startServers(bench),
    }),
  ],
};

async function startServers(bench: Bench): Promise<{ ours: Contestant; peer: Contestant }> {
  const { lab, onCore } = bench;
  const prefix = onCore(0);
  const directory = lab.path('store');
  writeStore(directory, ANIMALS, 'seeded');
  const animals = lab.path('animals.json');
  writeFileSync(animals, stringifyJson({ pets: Array.from({ length: ANIMALS }, (_, i) => animal(i + 1)) }));
  const ours = await start(lab, { prefix, args: serveArgs('--data', directory, '--no-page') });
  const minimal = await start(lab, { prefix, args: [peer('minimal-server.mjs'), animals] });
  return {
    ours: underLoad(bench, await pagesOf(lab, 'ours', ours), ours),
    peer: underLoad(bench, await pagesOf(lab, 'peer', minimal), minimal),
  };
}

/** Follows the links of all pages, and checks that the pages have all animals in order. */
async function pagesOf(lab: Lab, name: string, server: Server): Promise<Load> {
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
  const file = lab.path(`paths-${name}`);
  writeFileSync(file, paths.map((path) => `${path}\n`).join(''));
  return { method: 'GET', connections: 32, paths: file };
}
