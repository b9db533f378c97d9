import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod/mini';
import { pageSize } from '../../contract/api.ts';
import { IdempotencyKey } from '../../contract/headers.ts';
import { type PetStatus, petStatuses, type ReceivedPet } from '../../contract/schemas.ts';
import { realFileSystem, replaceFile } from '../../system/file-system.ts';
import { petView } from '../animals/pet-view.ts';
import { readPages } from '../animals/selection.ts';
import { connectionFor, followUpCommand, listOne, reportTarget, withClient } from '../connection/connect.ts';
import { CliError, usageError } from '../core/errors.ts';
import { cellText, EMPTY_NAME_PATTERN, parseInt64Argument, parseWith } from '../core/values.ts';
import { isClosedPipe } from '../output/console.ts';
import { printRows } from '../output/printer.ts';
import { listNames, sanitizeForTerminal, shellQuote } from '../output/text.ts';
import { formatTime } from '../output/time.ts';
import { stateDirectory } from '../profiles/paths.ts';
import type { Connection } from '../profiles/profile.ts';
import { argument, type Command, type CommandContext, option } from '../program/command.ts';
import { CATEGORY_HINT } from '../program/words.ts';
import { ask, canAsk, promptText } from '../prompts/prompt.ts';

type Options = { name?: string; category?: bigint; status?: PetStatus; idempotencyKey?: string };

const EXAMPLE = 'for example: pets add Rex --category 3';

export const add: Command<Options> = {
  name: 'add',
  summary: 'add an animal; it cannot be changed or deleted later',
  examples: [
    'pets add Rex --category 3',
    'pets add "Fürst Pückler" --category 2 --status pending',
    'pets add Rex --category 3 --json | jq .id',
  ],
  arguments: [argument('[name]', "the animal's name; if it begins with a hyphen, put it last, after --")],
  extraHint: 'use straight quotes, and an option for the category: pets add "Lady Bella" --category 3',
  options: [
    option(
      '--category <id>',
      'number of the category; if it is missing at a terminal, pets shows some in use, and asks',
      parseInt64Argument,
      CATEGORY_HINT,
    ),
    option('--status <status>', 'available, pending or sold (default: available)', petStatuses),
    option(
      '--idempotency-key <key>',
      '1 to 255 ASCII characters; for 24 hours, adding again with the same key adds no second animal, if the service supports it',
      parseWith(IdempotencyKey),
    ),
  ],
  prints: 'rows',
  outputOptions: [],
  async run({ name: given, category, status, idempotencyKey }, context) {
    const { console, clock } = context;
    const problem = given === undefined ? undefined : problemWithName(given);
    if (problem !== undefined)
      throw usageError(problem, `${EXAMPLE}; for rows from a pipe: ${followUpCommand(context, 'import')} -`);
    if (given === undefined && !canAsk(context)) throw usageError('missing <name>', EXAMPLE);
    if (category === undefined && !canAsk(context))
      throw usageError('missing --category <id>', `${EXAMPLE}; ${CATEGORY_HINT}`);
    const connection = connectionFor(context);
    const name = given ?? (await promptText(context, 'Name of the animal', problemWithName));
    const categoryId = category ?? (await askCategory(context, connection, name));
    const body = { name, categoryId, ...(status && { status }) };
    const path = join(stateDirectory(context), 'added.json');
    const animal = hash('sha256', JSON.stringify([connection.baseUrl, name, String(categoryId)]));
    // With an idempotency key, the user repeats an addition on purpose, so pets does not ask.
    if (idempotencyKey === undefined)
      await checkRepetition(context, name, readAdditions(path, clock.now())[animal]);
    reportTarget(context, connection, 'adding at');
    const { value: pet } = await withClient(context, connection, async (client) => {
      if (idempotencyKey === undefined) return client.call('createPet', { body });
      // Only a response shows whether the service supports idempotency keys. The client must know this to retry.
      if (!client.supportsIdempotency()) await listOne(client);
      return client.call('createPet', { body }, { idempotencyKey });
    });
    const additions = JSON.stringify({ ...readAdditions(path, clock.now()), [animal]: clock.now() });
    await replaceFile(realFileSystem, path, [Buffer.from(additions)]).catch(() => {});
    try {
      await printRows(console, { ...petView(), isSingle: true }, [pet]);
      await console.finish();
    } catch (error) {
      if (!(error instanceof CliError) || isClosedPipe(error)) throw error;
      const hint = `do not add it again; to see it: ${followUpCommand(context, 'get')} ${pet.id}`;
      const message = `animal ${pet.id} was added, but not printed: ${error.message}`;
      const { code, exitCode } = error;
      throw new CliError(message, { code, exitCode, hint, cause: error });
    }
  },
};

/** Describes a mistake in a name, for example an unset variable; undefined if there is none. Animals cannot be removed. */
function problemWithName(name: string): string | undefined {
  if (EMPTY_NAME_PATTERN.test(name)) return 'the name is empty';
  return name === '-' ? 'the name is only a hyphen' : undefined;
}

/** Shows names of the first animals by category, because people know animals and not the numbers. Asks for a number. */
async function askCategory(context: CommandContext, connection: Connection, animal: string): Promise<bigint> {
  const { console } = context;
  const names = new Map<string, string[]>();
  const onResults = (pets: readonly ReceivedPet[]) => {
    for (const { categoryId, name } of pets) {
      const category = cellText(categoryId);
      names.set(category, [...(names.get(category) ?? []), name]);
    }
  };
  const options = { enough: pageSize.max, onResults, showStatus: console.showStatus };
  await withClient(context, connection, (client) => readPages(client, {}, options));
  for (const [category, some] of names) console.notice(`category ${category}: ${listNames(some, 4)}`);
  const question = `Number of the category of ${sanitizeForTerminal(animal)}`;
  const number = await promptText(context, question, (line) => {
    try {
      parseInt64Argument(line.trim());
      return undefined;
    } catch (error) {
      return `the category ${(error as Error).message}`;
    }
  });
  return parseInt64Argument(number.trim());
}

const DAY_MS = 86_400_000;

/** When this computer last added animals, in milliseconds since the epoch, by hashes of base URL, name and category. */
const Additions = z.record(z.string(), z.number());

/** The additions of the last day. If the file is missing or damaged, there are none, so a repeated addition is not noticed. */
function readAdditions(path: string, now: number): z.infer<typeof Additions> {
  try {
    const all = Object.entries(Additions.parse(JSON.parse(readFileSync(path, 'utf8'))));
    return Object.fromEntries(all.filter(([, time]) => Math.abs(now - time) < DAY_MS));
  } catch {
    return {};
  }
}

/** If the animal was added before, asks at a terminal, else prints a note. @throws CliError for a no, and errors of `ask` */
async function checkRepetition(context: CommandContext, name: string, lastTime?: number): Promise<void> {
  if (lastTime === undefined) return;
  const { console, clock } = context;
  const time = formatTime(lastTime, clock.now(), console.messageTimeZone());
  const before = `this computer added ${name} with the same category at ${time}`;
  if (!canAsk(context)) return console.notice(`${before}; adding another animal`);
  const question = `This cannot be undone, and ${before}. Add another animal?`;
  if ((await ask(context, question, ['no', 'yes'])) === 'yes') return;
  throw new CliError('not confirmed; nothing was added', {
    code: 'declined',
    hint: `to see the animals with this name: ${followUpCommand(context, 'find')} -- ${shellQuote([name], context.platform)}`,
  });
}
