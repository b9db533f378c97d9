import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { type Block, readTyped, type Session, type Typed } from './readme-blocks.ts';
import { type ReaderMachine, readerMachine } from './readme-machine.ts';
import { hasTerminal, recordTerminal, screenLines } from './readme-terminal.ts';

/** Wide enough that where a notice is wrapped does not depend on the length of an address. */
const COLUMNS = 120;
const TIMEOUT = 60_000;

/** How a block of each language is run; `console` in a terminal, these as scripts. Each ends at its first failure. */
const interpreters: Record<string, readonly string[]> = {
  sh: ['sh', '-eu'],
  bash: ['bash', '-eu'],
  zsh: ['zsh', '-eu'],
  fish: ['fish'],
  powershell: ['pwsh', '-NoProfile', '-File'],
  js: [process.execPath],
  python: ['python3'],
  yaml: ['sh', '-eu'],
  crontab: ['sh', '-eu'],
};

export const runnableLanguages = ['console', ...Object.keys(interpreters)];

/** The programs that a session needs and this machine does not have. */
export function missingFor({ blocks }: Session): string[] {
  const needed = new Set<string>();
  for (const { language, text } of blocks) {
    const [program] = interpreters[language] ?? [];
    if (program) needed.add(program);
    for (const word of ['jq', 'curl', 'npm']) if (new RegExp(`\\b${word}\\b`).test(text)) needed.add(word);
  }
  const isThere = (name: string) => spawnSync('sh', ['-c', `command -v '${name}'`]).status === 0;
  const hasConsole = blocks.some(({ language }) => language === 'console');
  const terminal = hasConsole && !hasTerminal() ? ['script (util-linux)'] : [];
  return [...[...needed].filter((name) => !isThere(name)), ...terminal];
}

/** Runs the blocks of a session, and tells what came otherwise than the README says. */
export async function runSession({ blocks, marks }: Session): Promise<string[]> {
  const machine = await readerMachine(marks, blocks.map(({ text }) => text).join('\n'));
  const faults: string[] = [];
  for (const block of blocks) {
    const run = block.language === 'console' ? runConsole : runScript;
    faults.push(...(await run(block, machine)).map((fault) => `${block.at}: ${fault}`));
  }
  return faults;
}

async function runScript({ language, text }: Block, machine: ReaderMachine): Promise<string[]> {
  const extension = { js: 'mjs', powershell: 'ps1' }[language] ?? language;
  const script = join(machine.directory, `.block.${extension}`);
  await writeFile(script, machine.own(withServers(commandsIn(language, text))));
  const { end, shown } = await runProgram([...(interpreters[language] ?? []), script], machine);
  return end === 0 ? [] : [`ended with ${end}\n${text}\n${shown}`];
}

export type RanLine = { line: string; code: number; shown: string };

/** Runs lines of sh one after the other on one machine, whatever becomes of each. */
export async function runLines(lines: readonly string[]): Promise<RanLine[]> {
  const machine = await readerMachine([], lines.join('\n'));
  const script = lines.map((line) => `(\n${withServers(line)}\n) 2>&1; echo "@@$?"\n`).join('');
  const { shown } = await runProgram(['sh', '-c', machine.own(script)], machine);
  const parts = shown.split(/@@(\d+)\n/);
  return lines.map((line, i) => ({ line, shown: parts[2 * i] ?? '', code: Number(parts[2 * i + 1]) }));
}

async function runProgram([program = '', ...args]: readonly string[], { directory, env }: ReaderMachine) {
  const child = spawn(program, args, {
    cwd: directory,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: TIMEOUT,
  });
  let shown = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => {
      shown += chunk;
    });
  }
  const closed = once(child, 'close');
  const [code, signal] = await once(child, 'exit');
  // What runs on in the background may hold the streams.
  await Promise.race([closed, setTimeout(200)]);
  return { end: code ?? signal, shown };
}

/** The commands of a file that holds more than commands: the steps of a workflow, the lines of a crontab. */
function commandsIn(language: string, text: string): string {
  if (language === 'yaml') return stepsIn(text.split('\n'));
  if (language !== 'crontab') return text;
  const time = /^(@\w+|(\S+\s+){4}\S+)\s+(?=\S)/gm;
  return text.replace(/^#.*$/gm, '').replace(time, '').replaceAll('\\%', '%');
}

/** What stands behind each `run:`, in its line or, indented, in those below. */
function stepsIn(lines: readonly string[]): string {
  const indentOf = (line: string) => (line.trim() === '' ? Number.POSITIVE_INFINITY : line.search(/[^ -]/));
  const steps = lines.flatMap((line, i) => {
    const [, command] = /^[ -]*run: (.*)$/.exec(line) ?? [];
    if (command !== '|') return command === undefined ? [] : [command];
    const end = lines.findIndex((each, j) => j > i && indentOf(each) <= indentOf(line));
    return lines.slice(i + 1, end === -1 ? undefined : end).map((each) => each.trimStart());
  });
  if (steps.length === 0) throw new Error('the workflow has no step that runs a command');
  return steps.join('\n');
}

/** A service that is left running runs in the background, as in a terminal of its own, and is there for what follows. */
const withServers = (script: string): string =>
  script.replace(/^(\s*)pets serve\b(.*)$/gm, (line, indent, rest) => {
    const args = rest.replace(/\s+#.*$/, '');
    // Whoever asks for the number of the process ends it as well.
    if (/ -- |--help|\\$/.test(args) || script.includes('$!')) return line;
    return `${indent}pets-serve${args.replace(/\s*&$/, '')}`;
  });

async function runConsole({ text }: Block, machine: ReaderMachine): Promise<string[]> {
  const typed = readTyped(text);
  const steps = typed.map(
    ({ command }) => `${machine.own(withServers(command))}\ncode=$?; echo "@@$code"; (exit $code)\n`,
  );
  const script = join(machine.directory, '.session');
  await writeFile(script, steps.join(''));
  const terminal = await recordTerminal('exec sh .session', {
    cwd: machine.directory,
    env: machine.env,
    columns: COLUMNS,
    rows: 50,
    typed: [{ after: /API key for/, text: `${machine.key}\r` }],
    timeoutMilliseconds: TIMEOUT,
  });
  const shown = screenLines(terminal).join('\n');
  const parts = shown.split(/@@(\d+)(?:\n|$)/);
  if (parts.length !== 2 * typed.length + 1) return [`did not come to its end:\n${shown}`];
  return typed.flatMap((each, i) =>
    compare(each, { shown: parts[2 * i] ?? '', code: parts[2 * i + 1] ?? '' }, machine),
  );
}

/**
 * `…` stands for anything in a line, and alone in a line for any lines; how far columns are apart does not count, an
 * address of another length moves them. Where nothing is shown, it has to succeed.
 */
function compare(
  { command, output }: Typed,
  { shown, code }: { shown: string; code: string },
  { plain }: ReaderMachine,
): string[] {
  if (output.length === 0) return code === '0' ? [] : [`$ ${command}\nended with ${code}\n${shown}`];
  const expected = narrow(plain(output.join('\n')));
  const pattern = expected
    .split('\n')
    .map((line) =>
      line === '…' ? '(?:.*\\n)*?' : `${line.trimEnd().split('…').map(escaped).join('.*')} *\\n`,
    );
  const actual = narrow(plain(shown)).replace(/\n*$/, '\n');
  if (new RegExp(`^${pattern.join('')}$`).test(actual)) return [];
  return [`$ ${command}\nshows\n${actual}\nand not\n${expected}`];
}

const narrow = (text: string): string => text.replace(/(\S) {2,}/g, '$1  ');

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
