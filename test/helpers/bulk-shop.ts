import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runInTerminal, startInTerminal, type TerminalOptions } from './context.ts';
import { type Handler, reply, scriptedServer } from './scripted-server.ts';
import { KEY } from './service.ts';
import { temporaryDirectory } from './temp.ts';

export const CSV = 'name,category\nRex,1\nBella,2\nLola,3\n';
export const HONOURED = { 'Idempotency-Supported': 'true' };

/** A shop with a file to add, and a state directory that lasts from one run to the next. */
export async function shop(url: string, text = CSV, name = 'animals.csv') {
  const directory = await temporaryDirectory();
  const file = join(directory, name);
  await writeFile(file, text);
  const environment = { PETS_BASE_URL: url, PETS_API_KEY: KEY, XDG_STATE_HOME: join(directory, 'state') };
  return {
    file,
    directory,
    add: (args: string[] = [], { env, ...options }: TerminalOptions = {}) =>
      runInTerminal(['add', '--from', file, ...args], { ...options, env: { ...environment, ...env } }),
    addOther: (other: string, args: string[] = []) =>
      runInTerminal(['add', '--from', join(directory, other), ...args], { env: environment }),
    /** Rows that are kept outside of a job. */
    async spools() {
      const bulk = join(directory, 'state', 'pets', 'bulk');
      return (await readdir(bulk).catch(() => [])).filter((each) => each.startsWith('spool'));
    },
    startAdd: () => startInTerminal(['add', '--from', file], { env: environment }),
  };
}

/** A service that counts from 1, and answers a creation as the test says; undefined for the usual answer. */
export async function service(
  answer: (name: string, response: Parameters<Handler>[1], count: number) => boolean = () => false,
  headers: Record<string, string> = HONOURED,
) {
  const added = new Map<string, { id: number; name: string }>();
  let id = 0;
  const server = await scriptedServer((request, response) => {
    const { body, headers: sent } = server.requests.at(-1) as (typeof server.requests)[number];
    if (request.method === 'GET') return reply(response, 200, [], headers);
    const pet = JSON.parse(body);
    const count = creations().filter(({ name }) => name === pet.name).length;
    const key = String(sent['idempotency-key']);
    if (!added.has(key)) added.set(key, { id: ++id, ...pet, status: 'available' });
    if (!answer(pet.name, response, count)) reply(response, 201, added.get(key), headers);
  });
  const creations = () =>
    server.requests
      .filter(({ method }) => method === 'POST')
      .map(({ body, headers: sent }) => ({ name: JSON.parse(body).name, key: sent['idempotency-key'] }));
  return { ...server, creations, names: () => creations().map(({ name }) => name), added };
}
