import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { drawPicture, PICTURE } from '../../.config/picture.ts';
import { commands } from '../../src/cli/commands/index.ts';
import { manualClock } from '../helpers/clock.ts';
import { needsPostgres, readerMachine, testBlocks } from '../helpers/document-blocks.ts';
import { readDocument } from '../helpers/documents.ts';
import { freshMachine, serve } from '../helpers/pets.ts';
import { nginxServer, startProxy } from '../helpers/real-proxies.ts';
import { testAtTerminal, testIfInstalled } from '../helpers/skip.ts';
import { AUTHORITY, TLS_DIRECTORY } from '../helpers/tls-server.ts';

describe('each block of the documents runs without an error', () => {
  // documents.test.ts has the console blocks of the README.
  testBlocks(
    (block) => !needsPostgres(block) && !(block.document === 'README.md' && block.language === 'console'),
  );
});

testAtTerminal(
  'the picture in the README shows the current output of the program (npm run picture redraws it)',
  async () => expect((await drawPicture()) === readFileSync(PICTURE, 'utf8')).toBe(true),
);

/** With these errors, exit code 2 is fine: the arguments were valid, but a terminal, base URL or key is missing. */
const ARGUMENTS_ARE_VALID = /cannot ask for a key|no base URL|no key on standard input/;

test('sh and the program understand every example in the help', async () => {
  const run = await readerMachine([]);
  const examples = commands
    .flatMap((entry) => ('commands' in entry ? entry.commands : entry))
    .flatMap((command) => command.examples ?? [])
    .map((example) => example.replace(/ {2,}.*/, ''))
    .filter((example) => !/completion fish/.test(example));
  expect(examples.length).toBeGreaterThan(40);
  for (const example of examples) {
    const { code, output } = await run(example);
    expect(code, output).not.toBe(127);
    if (code === 2) expect(output).toMatch(ARGUMENTS_ARE_VALID);
  }
});

/** For each path of the service: what to replace in nginx.conf, and its replacement in docs/deploy.md. */
const LOCATIONS = {
  '': [],
  '/inventory': [/location \/ \{[^}]*\}/, /`(location \/inventory\/ \{.*?\})`/],
} as const;

describe('docs/examples/nginx.conf', () => {
  testIfInstalled('nginx').each(Object.entries(LOCATIONS))(
    'with the path %j: TLS, links, and addresses of clients',
    async (path, [from, to]) => {
      const machine = await freshMachine();
      const animals = Array.from({ length: 150 }, (_, i) => `animal ${i + 1},7\n`);
      const seed = await machine.file('animals.csv', `name,category\n${animals.join('')}`);
      const { text: deploy } = readDocument('docs/deploy.md');
      // Start the service as the document says. The clock stands still, so that all requests are in the same minute.
      const options = /PETS_OPTIONS=(.*127.*)/
        .exec(deploy)?.[1]
        ?.replace('shop.example', `shop.example${path}`);
      const args = ['--ephemeral', '--seed', seed, '--no-profile', '--log', ...(options?.split(' ') ?? [])];
      const service = await serve(machine, args, { clock: manualClock(new Date().toISOString()) });
      const [upstream = '', server = ''] = readDocument('docs/examples/nginx.conf')
        .text.replace(/( +server 10\..*\n)+/, `  server ${new URL(service.url).host};\n`)
        .replace(/\/etc\/\S+\/fullchain\.pem/, join(TLS_DIRECTORY, 'localhost.pem'))
        .replace(/\/etc\/\S+\/privkey\.pem/, join(TLS_DIRECTORY, 'server.key'))
        .replace(from ?? '', to?.exec(deploy)?.[1] ?? '')
        .split(/^server \{$/m);
      const directives = (port: number) =>
        server.replace('listen 443', `listen 127.0.0.1:${port}`).replace(/\}\n$/, '');
      const port = await startProxy('nginx', nginxServer(directives, upstream));

      // All pages are read, which shows that the links to next pages have the path.
      await machine.saveProfile('prod', { baseUrl: `https://localhost:${port}${path}/v1`, key: service.key });
      const env = { NODE_EXTRA_CA_CERTS: AUTHORITY };
      const listed = await machine.command(['list', '--all', '--json'], { env });
      expect(listed).toMatchObject({ code: 0, stderr: '' });
      expect(JSON.parse(listed.stdout)).toHaveLength(150);

      /** Requests a path from this local address. The header X-Forwarded-For claims another address. */
      const request = async (target: string, localAddress: string) => {
        const headers = { Host: 'shop.example', 'X-Forwarded-For': '198.51.100.7' };
        const ca = readFileSync(AUTHORITY);
        const url = `https://127.0.0.1:${port}${target}`;
        const sent = get(url, { localAddress, headers, ca, servername: 'localhost' });
        const [response] = (await once(sent, 'response')) as [IncomingMessage];
        return [
          response.statusCode,
          response.headers['x-ratelimit-remaining'],
          await readText(response),
        ] as const;
      };
      expect((await request(`${path}/v1/pets`, '127.0.0.2')).slice(0, 2)).toEqual([401, '59']);
      expect((await request(`${path}/v1/pets`, '127.0.0.3')).slice(0, 2)).toEqual([401, '59']);
      expect((await request(`${path}/v1/pets`, '127.0.0.2')).slice(0, 2)).toEqual([401, '58']);
      expect((await request('/metrics', '127.0.0.2'))[0]).toBe(404);
      const [, , openapi] = await request(`${path}/openapi.json`, '127.0.0.2');
      expect(JSON.parse(openapi).servers[0]).toMatchObject({ url: `https://shop.example${path}/v1` });
    },
  );
});

testIfInstalled('systemd-analyze')('systemd accepts the unit, and grants it little', async () => {
  const { text } = readDocument('docs/examples/pets.service');
  const machine = await freshMachine();
  const unit = await machine.file('pets.service', text.replace('/usr/bin/pets', process.execPath));
  // Unknown settings are reported, but the exit code stays 0. The other units of this machine can have problems, too.
  const verify = ['verify', '--man=no', unit];
  const { stdout, stderr } = spawnSync('systemd-analyze', verify, { encoding: 'utf8' });
  expect(`${stdout}${stderr}`.split('\n').filter((line) => line.includes('pets.service'))).toEqual([]);
  const security = ['security', '--offline=true', '--threshold=15', unit];
  expect(spawnSync('systemd-analyze', security).status).toBe(0);
});
