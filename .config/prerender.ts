import { Readable, Writable } from 'node:stream';
import type { Command } from 'commander';
import { helpTopics } from '../src/cli/commands/help.ts';
import { completionSpec } from '../src/cli/completion/complete.ts';
import { argvKey, type Prerendered } from '../src/cli/fast-path.ts';
import { commands, main } from '../src/cli/main.ts';
import { createProgram } from '../src/cli/program/program.ts';
import { createProcessContext } from '../src/cli/run.ts';

// Collects the output that the built command prints without loading the program (src/cli/fast-path.ts).

export async function prerender(): Promise<Prerendered> {
  const { program } = createProgram(commands);
  const topicNames = Object.keys(helpTopics).filter((name) => !name.includes(' '));
  const completion = completionSpec(program, topicNames);
  const pages: Prerendered['pages'][number][] = [];
  for (const argvs of argvsOfPages(program)) {
    const [argv = []] = argvs;
    pages.push({ arguments: argvs.map(argvKey), text: await run(argv) });
  }
  return { pages, completion };
}

/** Returns a list for each page, with all command lines that print the page. */
function argvsOfPages(program: Command): string[][][] {
  const completion = program.commands.find((each) => each.name() === 'completion');
  return [
    [['--version'], ['-V']],
    [[]],
    [['--help'], ['-h'], ['help']],
    ...pathsBelow(program).map((path) => [
      ['help', ...path],
      [...path, '--help'],
      [...path, '-h'],
    ]),
    ...Object.keys(helpTopics).map((name) => [['help', ...name.split(' ')]]),
    ...(completion?.registeredArguments[0]?.argChoices ?? []).map((shell) => [['completion', shell]]),
  ];
}

/** The words of every command: `list`, `keys`, `keys add`, … */
const pathsBelow = ({ commands }: Command): string[][] =>
  commands.flatMap((each) => [[each.name()], ...pathsBelow(each).map((path) => [each.name(), ...path])]);

/** Returns what the program prints when stdout is a pipe. @throws if the program fails */
async function run(argv: string[]): Promise<string> {
  const text = { stdout: '', stderr: '' };
  const output = (name: keyof typeof text) =>
    new Writable({
      decodeStrings: false,
      write(chunk, _encoding, done) {
        text[name] += chunk;
        done();
      },
    });
  const code = await main({
    ...createProcessContext(),
    argv,
    env: {},
    stdin: Readable.from([]),
    stdout: output('stdout'),
    stderr: output('stderr'),
  });
  if (code !== 0 || text.stderr !== '') throw new Error(`pets ${argv.join(' ')}: ${code} ${text.stderr}`);
  return text.stdout;
}
