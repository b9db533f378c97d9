import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectNoLeaks } from '../helpers/failure.ts';
import { freshMachine, type Machine, machineWithServer, makeMachine, serve } from '../helpers/pets.ts';
import { reply } from '../helpers/scripted-server.ts';
import { testIf } from '../helpers/skip.ts';
import { tlsServer } from '../helpers/tls-server.ts';

// Scripts need predictable output in any environment, and with standard streams that are full, closed or read slowly.

let machine: Machine;
let dispose: () => Promise<void>;
beforeAll(async () => {
  ({ machine, dispose } = await makeMachine());
  await serve(machine, ['--ephemeral', '--seed']);
});
afterAll(() => dispose());

const list = 'pets list --profile local --all';

// Each row sets several variables, or other streams: it fails if any of them changes the output.
test.each([
  [`LANG=C LC_ALL=C TERM=dumb TZ=Pacific/Auckland ${list}`],
  [`LC_ALL=de_DE@euro TZ='Nowhere/At all' COLUMNS=-1 TMPDIR=/nonexistent ${list}`],
  [`LC_ALL=de_DE.UTF-8 HOME=relative TMPDIR=/dev/null TZ= COLUMNS=wide ${list}`],
  [`LANG=de_DE.UTF-8 COLUMNS=20 LINES=5 CI=true GITHUB_ACTIONS=true ${list} < /dev/null`],
  [`${list} --no-input | cat`],
  [`${list} <&-`],
])('the bytes on stdout do not depend on the environment and the streams: %s', async (line) => {
  const plain = await machine.pets(['list', '--profile', 'local', '--all']);
  expect(plain.stdout).toContain('Fürst Pückler');
  expect(plain.stdout).not.toContain('\u001b');
  expect(await machine.shell(line)).toEqual(plain);
});

test('the locale decides between commas and semicolons of --excel, also one that Node refuses', async () => {
  const { stdout } = await machine.shell(`LC_ALL=de_DE@euro ${list} --excel`);
  expect(stdout).toContain('\ufeffid;name;categoryId;status\r\n1;');
});

/** The entry prints the output of this command without loading the program. */
const PRERENDERED = 'pets help serve';

test.each([PRERENDERED, list, `${list} --json`])(
  'a closed pipe ends the command with 0 and without a message: %s',
  async (command) => {
    // The other end of the pipe is closed before the command starts.
    const reader = '{ exec <&-; echo > closed; }';
    const ran = await machine.shell(
      `rm -f closed; mkfifo closed; { read -r _ < closed; ${command}; echo "code $?" >&2; } | ${reader}`,
    );
    expectNoLeaks(ran);
    expect(ran.stderr).toMatch(/^code 0$/m);
    expect(ran.stderr).not.toContain('error');
  },
);

const FULL = /^error: cannot write the output: no space left on device|"code":"output_error"/;

test.each<[line: string, code: number, stderr?: RegExp]>([
  ...[PRERENDERED, list, `${list} --json`].map((each): [string, number, RegExp] => [
    `${each} > /dev/full`,
    ...([1, FULL] as const),
  ]),
  ...['>&-', '2>&-', '<&-'].map((end): [string, number] => [`${PRERENDERED} ${end}`, 0]),
  ['pets list --limit 0 2> /dev/full', 2],
  ['pets list --limit 0 2>&-', 2],
  ['pets login --base-url https://api.example.com/v1 <&-', 2],
  [`${list} --json 2>&-`, 0],
  [`${list} --json <&-`, 0],
])('full or closed streams: %s ends with %i', async (line, code, stderr = /^/) => {
  const ran = await machine.shell(line);
  expectNoLeaks({ stdout: '', stderr: ran.stderr });
  expect(ran).toMatchObject({ code, stderr: expect.stringMatching(stderr) });
});

testIf(process.platform === 'linux', 'only Linux has /proc')(
  'pipes on stdout and stderr stay blocking for the programs that share them',
  async () => {
    const look = `read -r line; pid=$(expr "$line" : '.*"pid":\\([0-9]*\\)'); grep -h flags /proc/$pid/fdinfo/[12]; kill $pid`;
    const { stdout } = await machine.shell(`pets serve --ephemeral --port 0 --json 2>&1 | { ${look}; }`);
    // O_NONBLOCK would add 4 to the fourth digit from the end.
    expect(stdout).toMatch(/^(flags:\s+\d*[0-3]\d{3}\n){2}$/);
  },
);

test('a warning of Node is one of the lines of JSON on stderr', async () => {
  const { port } = await tlsServer('self-signed');
  const env = {
    NODE_TLS_REJECT_UNAUTHORIZED: '0',
    PETS_BASE_URL: `https://localhost:${port}/v1`,
    PETS_API_KEY: 'pets_k',
  };
  const { code, stdout, stderr } = await machine.command(['list', '--json'], { env });
  expect([code, stdout]).toEqual([0, '[]\n']);
  expect(JSON.parse(stderr).notice).toContain('NODE_TLS_REJECT_UNAUTHORIZED');
});

test('every row error and the final error reach a slow reader', async () => {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: 'http://127.0.0.1:9/v1', key: 'pets_k' });
  const file = await machine.file('a.csv', `name,category\n${'Rex,x\n'.repeat(4_000)}`);
  const child = machine.startCommand(['import', file, '--json'], { stdin: '' });
  const closed = once(child, 'close');
  const stderr = child.stderr as NonNullable<typeof child.stderr>;
  // From the first byte on, the program has time to end. It must not, because most of its output is still unread.
  await once(stderr, 'readable');
  await sleep(600);
  const lines = (await text(stderr)).trimEnd().split('\n');
  const [code] = await closed;
  expect([code, lines.length]).toEqual([2, 4_001]);
  expect(JSON.parse(lines.at(-1) ?? '').error).toMatchObject({ code: 'usage' });
});

test('failed rows cause exit code 8 even if the results are not read to their end', async () => {
  let id = 0;
  const { machine } = await machineWithServer((request, response, _, body) => {
    if (request.method === 'GET') return reply(response, 200, []);
    const pet = JSON.parse(body);
    if (pet.name === 'animal 3') reply(response, 400, { code: 'bad', message: 'no', status: 400 });
    else reply(response, 201, { id: ++id, ...pet });
  });
  const rows = Array.from({ length: 60 }, (_, i) => `animal ${i},1\n`).join('');
  await machine.file('a.csv', `name,category\n${rows}`);
  const { stderr } = await machine.shell('{ pets import a.csv --json; echo "code $?" >&2; } | head -c 10');
  expect(stderr).toContain('added 59 of 60 rows; 1 failed');
  expect(stderr).toContain('code 8');
});
