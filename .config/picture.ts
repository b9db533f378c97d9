// `npm run picture` draws .github/pets.svg, the picture in the README, from a session of the built command.
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import xterm from '@xterm/headless';
import { spawnInTerminal, type TerminalSize } from '../test/helpers/pseudo-terminal.ts';
import { drawTerminal } from './picture.svg.ts';

const ROOT = join(import.meta.dirname, '..');
export const PICTURE = join(ROOT, '.github', 'pets.svg');

const session = [
  'pets list --status available --limit 5',
  "pets add 'Rex the Second' --category 1 --status pending",
  'pets import animals.csv',
  'pets list --status sleeping',
];

const animals = 'name,category,status\nMinka,2,available\nFürst Pückler II,1,pending\nŁapka,2,sold\n';

/** Draws the picture with the current program. The result is the same in every run. */
export async function drawPicture(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'pets-picture-'));
  try {
    await writeFile(join(home, 'animals.csv'), animals);
    await writeFile(join(home, 'session'), script());
    const terminal = await recordTerminal('exec sh session', {
      cwd: home,
      env: {
        PATH: process.env['PATH'] ?? '',
        HOME: home,
        NODE: process.execPath,
        PETS: join(ROOT, 'dist', 'pets.js'),
      },
      columns: 80,
      rows: 24,
    });
    return drawTerminal(terminal, {
      title: 'A session of pets',
      description: `What a terminal shows for these commands: ${session.join('; ')}`,
    });
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

/** Runs a shell command in a pseudo-terminal to its end, and answers its question with yes. */
async function recordTerminal(line: string, size: TerminalSize): Promise<xterm.Terminal> {
  const { columns: cols, rows } = size;
  const terminal = new xterm.Terminal({ cols, rows, scrollback: 10_000, allowProposedApi: true });
  const child = spawnInTerminal(line, size);
  let output = '';
  child.stdout.on('data', (bytes: Buffer) => {
    terminal.write(bytes);
    const isAsked = output.includes('[no/yes] ');
    output += bytes;
    if (!isAsked && output.includes('[no/yes] ')) child.stdin.write('yes\r');
  });
  await once(child, 'close');
  await new Promise<void>((resolve) => terminal.write('', resolve));
  return terminal;
}

/** A shell script that starts a service on a free port without output, and then prints and runs each command. */
function script(): string {
  const typed = session.map((command) => {
    const shown = command.replaceAll("'", "'\\''");
    return `printf '\\033[32m$\\033[0m \\033[1m%s\\033[0m\\n' '${shown}'\n${command}\n`;
  });
  return `pets() { "$NODE" "$PETS" "$@"; }
"$NODE" "$PETS" serve --ephemeral --seed --no-profile --port 0 --json > started 2> /dev/null &
until [ -s started ]; do sleep 0.02; done
field() { sed 's/.*"'$1'":"\\([^"]*\\)".*/\\1/' started; }
field key | pets login --base-url "$(field url)" > /dev/null 2>&1
${typed.join('echo\n')}
kill $!
wait
`;
}

if (process.argv[1] === import.meta.filename) {
  await writeFile(PICTURE, await drawPicture());
  console.log(`written: ${PICTURE}`);
}
