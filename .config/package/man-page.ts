import type { Command as Commander, Option } from 'commander';
import { environmentVariables, firstCommands } from '../../src/cli/commands/help.ts';
import { exitCodeMeanings } from '../../src/cli/core/exit-codes.ts';
import { commands } from '../../src/cli/main.ts';
import { createProgram, formatter, globalOptions, programSummary } from '../../src/cli/program/program.ts';

// Generates the man page from the same declarations as the help of the program.

const { program, declarations } = createProgram(commands);

/** The width of the source. The width of the shown page depends on the terminal. */
const COLUMNS = 72;

/**
 * @param date as `2026-11-23`
 * @param more where to read on
 */
export function manPage(version: string, date: string, more: string): string {
  return [
    `.TH PETS 1 "${date}" "pets ${version}" "User Commands"`,
    section('NAME', 'pets \\- command line of a pet shop'),
    section('SYNOPSIS', `.B pets\n.I command\n${escapeText('[options]')}`),
    section('DESCRIPTION', paragraph(programSummary)),
    section('EXAMPLES', Object.entries(firstCommands).map(exampleGroup).join('\n.PP\n')),
    section('COMMANDS', program.commands.map((each) => command('pets', each)).join('\n')),
    section('OPTIONS', 'Every command accepts these options.', ...globalOptions.map(option)),
    section('ENVIRONMENT', ...Object.entries(environmentVariables).map(([name, text]) => item(name, text))),
    section('EXIT STATUS', ...exitCodeMeanings.map(([code, text]) => item(`${code}`, text))),
    section('SEE ALSO', paragraph(more)),
    '',
  ].join('\n');
}

const section = (title: string, ...content: readonly string[]) => [`.SH ${title}`, ...content].join('\n');

/** A term in bold type with an indented text. */
const item = (term: string, text: string) => `.TP\n.B ${escapeText(term)}\n${paragraph(text)}`;

const exampleGroup = ([title, lines]: [string, Record<string, string>]) =>
  [escapeText(`${title}:`), ...Object.entries(lines).map(([line, text]) => item(line, text))].join('\n');

/** The sections of a command and of its subcommands. */
function command(parent: string, each: Commander): string {
  const name = `${parent} ${each.name()}`;
  const declared = declarations.get(each);
  if (declared === undefined) return each.commands.map((child) => command(name, child)).join('\n');
  const { examples, notes } = declared;
  return [
    `.SS ${escapeText(`${name} ${each.usage()}`)}`,
    paragraph(each.description()),
    ...each.registeredArguments.map((argument) => item(argument.name(), argument.description)),
    ...each.options.map(option),
    `.PP\n${examples.length === 1 ? 'Example' : 'Examples'}:\n.PP\n.EX`,
    ...examples.map((line) => escapeText(`    ${line}`)),
    '.EE',
    ...(notes === undefined ? [] : ['.PP', paragraph(notes)]),
  ].join('\n');
}

const option = (declared: Option) => item(declared.flags, formatter.optionDescription(declared));

const paragraph = (text: string) => formatter.boxWrap(text, COLUMNS).split('\n').map(escapeText).join('\n');

/** Escapes a line for roff. A hyphen becomes `\-`, so that an option that is copied from the page has ASCII hyphens. */
function escapeText(text: string): string {
  const escaped = text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll("'", '\\(aq')
    .replaceAll('`', '\\(ga')
    .replaceAll('^', '\\(ha')
    .replaceAll('~', '\\(ti');
  // A line that starts with a dot is a command for roff.
  return escaped.replace(/^\./, '\\&.');
}
