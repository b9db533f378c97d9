import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { expect, onTestFinished, type TestContext, test } from 'vitest';
import { withDeadline } from '../helpers/context.ts';
import { freshMachine, type Machine, petsInShell } from '../helpers/pets.ts';
import { spawnInTerminal } from '../helpers/pseudo-terminal.ts';
import { isInstalled } from '../helpers/skip.ts';

// These tests run the completion scripts in real shells.

const TAB = '\t';
const LEFT = '\x02';
/** The first key inserts all candidates of a word. The second prints and clears the line. See `startUp` below. */
const INSERT_ALL = '\x1b*';
const PRINT_LINE = '\x14';

/** Skips a test if this machine lacks the shell, or the pseudo-terminal that it needs. */
function needShell(shell: string, skip: TestContext['skip']): void {
  const missing = (shell === 'fish' ? ['fish'] : [shell, 'script']).filter(
    (program) => !isInstalled(program),
  );
  skip(missing.length > 0, `not installed: ${missing.join(', ')}`);
}

/** The environment of a machine with the built command in its PATH as `pets`. */
async function environmentWithPets({ home, env }: Machine): Promise<Record<string, string>> {
  const bin = join(home, 'bin');
  await mkdir(bin);
  await writeFile(join(bin, 'pets'), `#!/bin/sh\nexec ${petsInShell} "$@"\n`);
  await chmod(join(bin, 'pets'), 0o755);
  return { ...env, PATH: `${bin}${delimiter}${env['PATH']}`, TERM: 'dumb', LC_ALL: 'C.UTF-8' };
}

/** The start-up files of the shells. A ready shell prints \x1e\x1e. PRINT_LINE prints the line between two \x1e. */
const startUp = {
  bash: (lines: string) => `${lines}
bind 'set bell-style none'
report() { printf '\\036%s\\036' "$READLINE_LINE"; READLINE_LINE= READLINE_POINT=0; }
bind -x '"\\C-t": report'
PROMPT_COMMAND="printf '\\036\\036'"`,
  zsh: (lines: string) => `bindkey -e
${lines}
every() { _main_complete; compstate[insert]=all; compstate[list]=; }
zle -C every complete-word every
bindkey '\\e*' every
report() { printf '\\036%s\\036' "$BUFFER"; BUFFER=; }
zle -N report
bindkey '^t' report
zle-line-init() { printf '\\036\\036'; zle -D zle-line-init; }
zle -N zle-line-init`,
};

/** Starts an interactive bash or zsh in a pseudo-terminal; it is killed after the test. */
async function startEditor(
  shell: keyof typeof startUp,
  machine: Machine,
  lines = `eval "$(pets completion ${shell})"`,
) {
  const file = join(machine.home, shell === 'bash' ? 'bashrc' : '.zshrc');
  await writeFile(file, startUp[shell](lines));
  const command = { bash: `bash --noprofile --rcfile ${file} -i`, zsh: 'zsh -d -i' }[shell];
  const child = spawnInTerminal(command, {
    cwd: machine.home,
    env: { ...(await environmentWithPets(machine)), ZDOTDIR: machine.home, HISTFILE: '' },
    columns: 80,
    rows: 24,
  });
  // The child is script(1). Killing it closes the terminal, which ends the shell.
  onTestFinished(async () => {
    const ended = once(child, 'exit');
    if (child.kill('SIGKILL')) await ended;
  });
  let shown = '';
  const waiting: ((line: string) => void)[] = [];
  const describe = () => `the shell printed no line, but:\n${shown}`;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const count = printedLines(shown).length;
    shown += text;
    for (const line of printedLines(shown).slice(count)) waiting.shift()?.(line);
  });
  const next = () => withDeadline(new Promise<string>((resolve) => waiting.push(resolve)), describe);
  await next();
  return {
    /** Types keys; returns the resulting command line. Rejects after 60 s with the output of the shell. */
    async line(keys: string): Promise<string> {
      const line = next();
      child.stdin.write(keys + PRINT_LINE);
      return line;
    },
    /** Everything that the shell has written to the terminal. */
    shown: () => shown,
  };
}

const printedLines = (shown: string): string[] =>
  [...shown.matchAll(/\x1e([^\x1e]*)\x1e/g)].map(([, line]) => line ?? '');

/** What a shell offers for each typed line, sorted, without quotes, `--name=` and a final slash. */
async function offeredBy(
  shell: keyof typeof startUp | 'fish',
  machine: Machine,
  typed: readonly string[],
): Promise<string[][]> {
  if (shell === 'fish') {
    const completions = typed.map((line) => `complete --do-complete ${quoteForFish(line)}; echo @@`);
    const text = await runFish(machine, completions.join('\n'));
    const parts = text.split('@@\n').slice(0, -1);
    return parts.map((part) => normalised(part.split('\n').flatMap((line) => line.split('\t')[0] || [])));
  }
  const editor = await startEditor(shell, machine);
  const offered: string[][] = [];
  for (const line of typed) {
    const completed = await editor.line(line + INSERT_ALL);
    const words = completed.slice(line.lastIndexOf(' ') + 1).match(/(?:\\.|'[^']*'|[^ ])+/g) ?? [];
    offered.push(completed === line ? [] : normalised(words));
  }
  return offered;
}

/** Runs lines of fish after the completion script; returns what they print. */
async function runFish(machine: Machine, lines: string): Promise<string> {
  const { stdout } = spawnSync('fish', ['--no-config', '-c', `pets completion fish | source\n${lines}`], {
    cwd: machine.home,
    env: await environmentWithPets(machine),
    encoding: 'utf8',
  });
  return stdout;
}

const quoteForFish = (text: string): string => `'${text.replace(/['\\]/g, '\\$&')}'`;

const normalised = (words: readonly string[]): string[] =>
  [
    ...new Set(
      words.map((word) =>
        word
          .replace(/^--\w+=/, '')
          .replace(/\\(.)|['"]/g, '$1')
          .replace(/\/$/, ''),
      ),
    ),
  ].sort();

const statuses = ['available', 'pending', 'sold'];
const files = ['my animals.csv', 'my store'];

/** What is typed, and the words that every shell offers for it. */
const lines: readonly (readonly [typed: string, offered: readonly string[]])[] = [
  ['pets lo', ['login', 'logout']],
  ['pets list --status=', statuses],
  ["pets list --status 's", ['sold']],
  ['pets list --sort na', ['name', 'name:desc']],
  ['pets count --by status,', ['status,category']],
  ["pets add 'Lady Bella' --status a", ['available']],
  ['pets --base-url http://localhost:80/v1 list --status=s', ['sold']],
  ['pets import my', files],
  ['pets serve --seed=my', files],
  ['pets serve --data=my', files],
  ['pets serve --seed -- cat my', files],
  ['true | pets use l', ['local']],
  ['PETS_PROFILE=prod pets use l', ['local']],
];

async function shop(): Promise<Machine> {
  const machine = await freshMachine();
  await writeFile(join(machine.home, 'my animals.csv'), 'precious');
  await mkdir(join(machine.home, 'my store'));
  return machine;
}

test.for(['bash', 'zsh', 'fish'] as const)(
  '%s offers the words that are valid at the cursor',
  async (shell, { skip }) => {
    needShell(shell, skip);
    const offered = await offeredBy(
      shell,
      await shop(),
      lines.map(([typed]) => typed),
    );
    expect(lines.map(([typed], i) => [typed, offered[i]])).toEqual(lines);
  },
);

test.for([
  ['bash', 'pets add "$(touch ran)" `touch ran` > my\\ animals.csv ; pets list > "my animals.csv" --sta'],
  ['zsh', 'pets add "$(touch ran)" > my\\ animals.csv --sta'],
] as const)(
  '%s ignores the text after the cursor, and never evaluates the typed text',
  async ([shell, dangerous], { skip }) => {
    needShell(shell, skip);
    const machine = await shop();
    const editor = await startEditor(shell, machine);
    expect(await editor.line(`pets list --status p --all${LEFT.repeat(6)}${TAB}`)).toMatch(
      /^pets list --status pending +--all$/,
    );
    expect(await editor.line(dangerous + TAB)).toBe(`${dangerous}tus `);
    expect(await readdir(machine.home)).not.toContain('ran');
    expect(await readFile(join(machine.home, 'my animals.csv'), 'utf8')).toBe('precious');
  },
);

const [bash, zsh] = ['bash', 'zsh'].map((shell) => `eval "$(pets completion ${shell})"`);
const COMPINIT = 'autoload -Uz compinit && compinit -u';
const ALIAS: [string, string][] = [
  ['p list --status pe', 'p list --status pending '],
  ['~/bin/pets li', '~/bin/pets list '],
];

test.for<[keyof typeof startUp, about: string, lines: string, completed: [typed: string, line: string][]]>([
  [
    'bash',
    'inserts the only candidate and a space, or a slash after a directory',
    `${bash}`,
    [
      ['pets li', 'pets list '],
      ['pets list --status=so', 'pets list --status=sold '],
      ['pets import my\\ a', 'pets import my\\ animals.csv '],
      ['pets serve --data=my\\ s', 'pets serve --data=my\\ store/'],
    ],
  ],
  [
    'bash',
    'completes an alias and a path, evaluated twice under set -u',
    `set -u\n${bash}\n${bash}\nalias p=pets; complete -F _pets p`,
    ALIAS,
  ],
  [
    'bash',
    'completes if = and : do not break words',
    `COMP_WORDBREAKS=" "; ${bash}`,
    [['pets --base-url http://a:1 list --status=so', 'pets --base-url http://a:1 list --status=sold ']],
  ],
  ['zsh', 'completes an alias and a path without compinit', `${zsh}\nalias p=pets`, ALIAS],
  ['zsh', 'completes an alias and a path with compinit', `${COMPINIT}\n${zsh}\nalias p=pets`, ALIAS],
  [
    'zsh',
    'completes with a script in a file in fpath',
    `pets completion zsh > ~/_pets; fpath=(~ $fpath); ${COMPINIT}`,
    [['pets use st', 'pets use staging ']],
  ],
])('%s %s, and prints nothing else', async ([shell, _about, lines, completed], { skip }) => {
  needShell(shell, skip);
  const editor = await startEditor(shell, await shop(), lines);
  for (const [typed, line] of completed) expect(await editor.line(typed + TAB)).toBe(line);
  expect(editor.shown()).not.toMatch(/bash: |zsh: |readonly|unbound/);
});

test('fish shows a description for each word, and completes an alias and a path', async ({ skip }) => {
  needShell('fish', skip);
  const typed = ['pets logo', 'p use st', '~/bin/pets use st'];
  const completions = typed.map((line) => `complete --do-complete '${line}'`);
  const shown = await runFish(await shop(), ['alias p pets', ...completions].join('\n'));
  expect(shown).toBe('logout\tremove the API key from a profile\nstaging\nstaging\n');
});

test.each(['use ', '--profile x list --status ', 'nothing --there'])(
  'with a damaged profile, completion of "pets %s" writes no file, and prints nothing to stderr',
  async (line) => {
    const machine = await freshMachine();
    await machine.saveProfile('settings', { baseUrl: 'damaged' });
    const before = await readdir(machine.home, { recursive: true });
    const ran = await machine.pets(['completion', 'bash', '--', ...line.split(' ')]);
    expect(ran).toMatchObject({ code: 0, stderr: '' });
    expect(await readdir(machine.home, { recursive: true })).toEqual(before);
  },
);
