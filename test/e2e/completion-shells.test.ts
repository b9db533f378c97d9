import { spawnSync } from 'node:child_process';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, type Machine, writeProgram } from '../helpers/pets.ts';
import { openTerminal } from '../helpers/pseudo-terminal.ts';
import { isInstalled, testIfInstalled } from '../helpers/skip.ts';

// These tests run the completion scripts in real shells.

const TAB = '\t';
const LEFT = '\x02';
/** Prints and clears the line. See `startUp` below. */
const PRINT_LINE = '\x14';

/** The environment of a machine with the built command in its PATH as `pets`. */
const environmentWithPets = async (machine: Machine) => ({
  ...machine.env,
  PATH: `${await writeProgram(machine)}${delimiter}${machine.env['PATH']}`,
  TERM: 'dumb',
  LC_ALL: 'C.UTF-8',
});

const MARK = '\x1e';

/** The start-up files of the shells. A ready shell prints two marks. PRINT_LINE prints the line between two marks. */
const startUp = {
  bash: (lines: string) => `${lines}
bind 'set bell-style none'
report() { printf '\\036%s\\036' "$READLINE_LINE"; READLINE_LINE= READLINE_POINT=0; }
bind -x '"\\C-t": report'
PROMPT_COMMAND="printf '\\036\\036'"`,
  zsh: (lines: string) => `bindkey -e
${lines}
report() { printf '\\036%s\\036' "$BUFFER"; BUFFER=; }
zle -N report
bindkey '^t' report
zle-line-init() { printf '\\036\\036'; zle -D zle-line-init; }
zle -N zle-line-init`,
};

/** Starts an interactive bash or zsh in a pseudo-terminal. */
async function startEditor(shell: keyof typeof startUp, machine: Machine, lines: string) {
  const file = await machine.file(shell === 'bash' ? 'bashrc' : '.zshrc', startUp[shell](lines));
  const env = { ...(await environmentWithPets(machine)), ZDOTDIR: machine.home, HISTFILE: '' };
  const command = { bash: `bash --noprofile --rcfile ${file} -i`, zsh: 'zsh -d -i' }[shell];
  const terminal = openTerminal({ home: machine.home, env }, command);
  await terminal.waitFor(`${MARK}${MARK}`);
  return {
    ...terminal,
    /** Types keys; returns the resulting command line. */
    async line(keys: string): Promise<string> {
      terminal.type(keys + PRINT_LINE);
      await terminal.waitFor(MARK);
      return terminal.waitFor(MARK);
    },
  };
}

/** A machine with a file and a directory whose names have a space. */
async function shop(): Promise<Machine> {
  const machine = await freshMachine();
  await machine.file('my animals.csv', 'precious');
  await mkdir(join(machine.home, 'my store'));
  return machine;
}

/** What is typed, and the line after the key TAB. */
type Completed = readonly (readonly [typed: string, line: string])[];

const everywhere: Completed = [
  ['pets lo', 'pets log'],
  ['pets logi', 'pets login '],
  ["pets list --status 's", "pets list --status 'sold' "],
  ["pets add 'Lady Bella' --status a", "pets add 'Lady Bella' --status available "],
  ['pets --base-url http://a:80/v1 list --sort id:d', 'pets --base-url http://a:80/v1 list --sort id:desc '],
  ['pets import my\\ a', 'pets import my\\ animals.csv '],
  ['pets serve --data my\\ s', 'pets serve --data my\\ store/'],
  ['pets serve --seed -- cat my\\ a', 'pets serve --seed -- cat my\\ animals.csv '],
  ['true | pets use l', 'true | pets use local '],
  ['PETS_PROFILE=prod pets use l', 'PETS_PROFILE=prod pets use local '],
];

/** The text after the cursor is ignored, and the typed text is never evaluated. */
const inEditors: Completed = [
  [`pets list --status p --all${LEFT.repeat(6)}`, 'pets list --status pending --all'],
  ...['pets add "$(touch ran)" > my\\ animals.csv --sta'].map((line) => [line, `${line}tus `] as const),
  ['~/bin/pets li', '~/bin/pets list '],
  ['p list --status pe', 'p list --status pending '],
];

const [bash, zsh] = ['bash', 'zsh'].map((shell) => `eval "$(pets completion ${shell})"`);

test.for<[keyof typeof startUp, about: string, lines: string, Completed]>([
  [
    'bash',
    'evaluated twice under set -u',
    `set -u\n${bash}\n${bash}\nalias p=pets; complete -F _pets p`,
    [...everywhere, ...inEditors],
  ],
  ['zsh', 'without compinit', `${zsh}\nalias p=pets`, [...everywhere, ...inEditors]],
  ['zsh', 'with compinit', `autoload -Uz compinit && compinit -u\n${zsh}\nalias p=pets`, inEditors],
])(
  '%s completes words %s, and runs and prints nothing else',
  async ([shell, _about, lines, completed], { skip }) => {
    const missing = [shell, 'script'].filter((program) => !isInstalled(program));
    skip(missing.length > 0, `not installed: ${missing.join(', ')}`);
    const machine = await shop();
    const editor = await startEditor(shell, machine, lines);
    const shown: [string, string][] = [];
    for (const [typed] of completed)
      shown.push([typed, (await editor.line(typed + TAB)).replace(/ +/g, ' ')]);
    expect(shown).toEqual(completed);
    expect(editor.output()).not.toMatch(/bash: |zsh: |readonly|unbound/);
    expect(await readdir(machine.home)).not.toContain('ran');
    expect(await readFile(join(machine.home, 'my animals.csv'), 'utf8')).toBe('precious');
  },
);

testIfInstalled('fish')('fish offers the same words, also for an alias and a path', async () => {
  const machine = await shop();
  const [, ...rows] = everywhere.filter(([typed]) => !typed.includes('\\'));
  const others = ['pets import "my a', 'pets logo', 'p use st', '~/bin/pets use st'];
  const typed = [...rows.map(([line]) => line), ...others];
  const quote = (text: string) => `'${text.replace(/['\\]/g, '\\$&')}'`;
  const lines = typed.map((line) => `complete --do-complete ${quote(line)}`);
  const script = ['pets completion fish | source', 'alias p pets', ...lines].join('\n');
  const { stdout } = spawnSync('fish', ['--no-config', '-c', script], {
    cwd: machine.home,
    env: await environmentWithPets(machine),
    encoding: 'utf8',
  });
  const offered = stdout.trimEnd().split('\n');
  expect(offered.slice(rows.length)).toEqual(['my animals.csv', 'logout', 'staging', 'staging']);
  const lastWord = (line = '') => line.trim().split(' ').at(-1)?.replaceAll("'", '');
  expect(offered.slice(0, rows.length)).toEqual(rows.map(([, line]) => lastWord(line)));
});
