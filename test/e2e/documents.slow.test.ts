import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { drawPicture, PICTURE } from '../../.config/picture.ts';
import manifest from '../../package.json' with { type: 'json' };
import { manualClock } from '../helpers/clock.ts';
import { needsPostgres, testBlocks } from '../helpers/document-blocks.ts';
import { readDocument, repository } from '../helpers/documents.ts';
import { freshMachine, serve } from '../helpers/pets.ts';
import { nginxServer, startProxy } from '../helpers/real-proxies.ts';
import { runProgram } from '../helpers/run-program.ts';
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

test('npm run demo lists, adds and shows animals on a new machine, and leaves nothing there', async () => {
  const machine = await freshMachine();
  // Leave out the build, because the other tests use its result.
  const [build, ...rest] = manifest.scripts.demo.split(' && ');
  expect(build).toBe('npm run build');
  const bin = join(repository, 'node_modules', '.bin');
  const env = { ...machine.env, PATH: `${bin}${delimiter}${machine.env['PATH']}`, TMPDIR: machine.home };
  const { status, stdout } = spawnSync(rest.join(' && '), {
    cwd: repository,
    env,
    shell: true,
    encoding: 'utf8',
  });
  expect(status).toBe(0);
  const steps = stdout.split(/^\$ pets /m).map((step) => step.trim().split('\n').slice(1));
  expect(steps.map(({ length }) => length)).toEqual([0, 66, 5, 1, 1, expect.any(Number)]);
  expect(steps[4]).toEqual(['67\tRex the Second\t1\tpending']);
  expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  expect(await readdir(machine.configDirectory).catch(() => [])).toEqual([]);
});

/** For each path of the service: what to replace in nginx.conf, and its replacement in docs/deploy.md. */
const LOCATIONS = {
  '': [],
  '/inventory': [/location \/ \{[^}]*\}/, /`(location \/inventory\/ \{.*?\})`/],
} as const;

testIfInstalled('nginx', 'curl').each(Object.entries(LOCATIONS))(
  'docs/examples/nginx.conf with the path %j: TLS, links, and addresses of clients',
  async (path, [from, to]) => {
    const { text: deploy } = readDocument('docs/deploy.md');
    // Start the service as the document says. The clock stands still, so that all requests are in the same minute.
    const [, options = ''] = /PETS_OPTIONS=(.*127.*)/.exec(deploy) ?? [];
    const ownOptions = options.replace('shop.example', `shop.example${path}`).split(' ');
    const service = await serve(
      await freshMachine(),
      ['--ephemeral', '--seed', '--no-profile', ...ownOptions],
      { clock: manualClock(new Date().toISOString()) },
    );
    const [upstream = '', server = ''] = readDocument('docs/examples/nginx.conf')
      .text.replace(/( +server 10\..*\n)+/, `  server ${new URL(service.url).host};\n`)
      .replace(/\/etc\/\S+\/fullchain\.pem/, join(TLS_DIRECTORY, 'localhost.pem'))
      .replace(/\/etc\/\S+\/privkey\.pem/, join(TLS_DIRECTORY, 'server.key'))
      .replace(from ?? '', to?.exec(deploy)?.[1] ?? '')
      .split(/^server \{$/m);
    const directives = (port: number) =>
      server.replace('listen 443', `listen 127.0.0.1:${port}`).replace(/\}\n$/, '');
    const port = await startProxy('nginx', nginxServer(directives, upstream));

    /** Requests a path from this local address. The header X-Forwarded-For claims another address. */
    const request = async (target: string, address: string, key = 'wrong') => {
      const headers = ['Host: shop.example', 'X-Forwarded-For: 198.51.100.7', `Authorization: Bearer ${key}`];
      const fields = headers.flatMap((each) => ['--header', each]);
      const args = ['-4', '-si', '--cacert', AUTHORITY, '--interface', address, ...fields];
      return (await runProgram('curl', [...args, `https://localhost:${port}${target}`], {})).output;
    };
    const first = await request(`${path}/v1/pets?limit=1`, '127.0.0.1', service.key);
    expect(first).toMatch(new RegExp(`^link: <${path}/v1/pets\\?limit=1&`, 'im'));
    for (const [address, remaining] of [
      ['127.0.0.2', 59],
      ['127.0.0.3', 59],
      ['127.0.0.2', 58],
    ] as const)
      expect(await request(`${path}/v1/pets`, address)).toMatch(
        new RegExp(`^HTTP/\\S+ 401[^]*^x-ratelimit-remaining: ${remaining}\\r$`, 'im'),
      );
    expect(await request('/metrics', '127.0.0.2')).toMatch(/^HTTP\/\S+ 404/);
    const [, openapi = ''] = (await request(`${path}/openapi.json`, '127.0.0.2')).split('\r\n\r\n');
    expect(JSON.parse(openapi).servers[0]).toMatchObject({ url: `https://shop.example${path}/v1` });
  },
);
