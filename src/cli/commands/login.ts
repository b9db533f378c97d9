import type { Client } from '../../client/client.ts';
import { API_KEY_PATTERN } from '../../contract/headers.ts';
import { followUpCommand, withClient } from '../connection/connect.ts';
import { CliError, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { isAddressError } from '../errors/address-hint.ts';
import { CallError } from '../errors/call-error.ts';
import { describeError } from '../errors/describe-error.ts';
import { maskKey } from '../output/redact.ts';
import { readProfile, readSettings, writeProfile } from '../profiles/files.ts';
import { addScheme, type Connection, parseBaseUrl } from '../profiles/profile.ts';
import { checkProtocol, checkUrl, chooseProfile } from '../profiles/resolve.ts';
import type { Command, CommandContext } from '../program/command.ts';
import { canPrompt, promptSecret, promptText, readStdin } from '../prompts/prompt.ts';

type Options = { withKey?: boolean; allowHttp?: boolean; verify: boolean };

export const login: Command<Options> = {
  name: 'login',
  summary: 'save an API key to a profile',
  examples: [
    'pets login --base-url https://api.example.com/v1',
    'pets login --profile staging --with-key < key.txt',
  ],
  options: [
    { flags: '--with-key', description: 'read the key from standard input' },
    { flags: '--allow-http', description: 'allow sending the key to another machine over plain http' },
    { flags: '--no-verify', description: 'save the key without sending any request' },
  ],
  async run(options, context) {
    const { globals, console, env } = context;
    const { defaultProfile } = readSettings(context);
    const profile = chooseProfile({ flags: globals, env, defaultProfile });
    const stored = readProfile(context, profile);
    const baseUrl = givenBaseUrl(context) ?? stored?.baseUrl ?? (await promptBaseUrl(context, profile));
    const allowHttp = options.allowHttp || (stored?.allowHttp && stored.baseUrl === baseUrl) || false;
    checkProtocol(baseUrl, { profile, allowHttp, env });
    const given = options.withKey ? await readKey(context) : undefined;
    if (given === undefined) requireKeyPrompt(context);
    const connectionWith = (key: string): Connection => ({ profile, baseUrl, key, keySource: 'this login' });
    if (options.verify) await checkAddress(context, connectionWith(''));
    const verify = async (key: string) => {
      if (options.verify) await withClient(context, connectionWith(key), listOne);
      return key;
    };
    const message = `API key for profile ${profile} (${new URL(baseUrl).host})`;
    const key = await (given === undefined ? promptKey(context, message, verify) : verify(given));
    await writeProfile(context, profile, { baseUrl, key, ...(allowHttp && { allowHttp }) });
    const profileOption = profile === (defaultProfile ?? 'prod') ? '' : ` --profile ${profile}`;
    console.notice(
      `saved key ${maskKey(key)} for ${baseUrl} to profile ${profile}. Next: pets list${profileOption}`,
    );
  },
};

function givenBaseUrl({ globals, env }: CommandContext): string | undefined {
  if (globals.baseUrl !== undefined) return checkUrl(globals.baseUrl, '--base-url');
  const fromEnv = globals.profile === undefined && env['PETS_BASE_URL'];
  return fromEnv ? checkUrl(fromEnv, 'PETS_BASE_URL') : undefined;
}

async function promptBaseUrl(context: CommandContext, profile: string): Promise<string> {
  requirePrompt(
    context,
    `missing --base-url; profile ${profile} has no base URL yet`,
    `for example: ${followUpCommand(context, 'login')} --base-url https://…/v1`,
  );
  const text = await promptText(
    context,
    'Base URL of the service, such as https://api.example.com/v1',
    baseUrlProblem,
  );
  return checkUrl(text, 'the base URL');
}

/** Describes what is wrong with a base URL; undefined if it is valid. */
function baseUrlProblem(text: string): string | undefined {
  if (parseBaseUrl(text) !== undefined) return undefined;
  const withScheme = addScheme(text);
  return withScheme === undefined
    ? 'not a base URL: it must start with https:// or http://, and usually ends in /v1'
    : `not a base URL: it must start with https:// or http://; add it: ${withScheme}`;
}

async function readKey(context: CommandContext): Promise<string> {
  const text = await readStdin(context);
  const problem = keyProblem(text);
  if (problem !== undefined) {
    throw new CliError(problem, {
      code: 'bad_key',
      hint: 'a key is a single word of visible ASCII characters; copy it again',
    });
  }
  return keyIn(text);
}

const listOne = (client: Client) => client.call('listPets', { query: { limit: 1 } });

/**
 * Sends one request without a key, so that a wrong base URL is reported before the user types the key, and before the
 * key is sent there. A refusal, such as 401, is expected.
 *
 * @throws CallError if the service cannot be reached at the base URL
 */
async function checkAddress(context: CommandContext, connection: Connection): Promise<void> {
  try {
    await withClient(context, connection, listOne, { once: true });
  } catch (error) {
    if (!(error instanceof CallError) || isAddressError(error)) throw error;
  }
}

const MAX_TRIES = 3;

/** Prompts again if the service rejects the key, so that the base URL does not have to be typed again. */
async function promptKey(
  context: CommandContext,
  message: string,
  verify: (key: string) => Promise<string>,
): Promise<string> {
  for (let tries = 1; ; tries++) {
    const key = keyIn(await promptSecret(context, message, keyProblem));
    try {
      return await verify(key);
    } catch (error) {
      const userError = describeError(error, context);
      if (userError.exitCode !== exitCodes.noKey || tries === MAX_TRIES) throw error;
      context.console.notice(userError.message);
    }
  }
}

function requireKeyPrompt(context: CommandContext): void {
  const pipe = `pipe the key in: ${followUpCommand(context, 'login')} --with-key < key.txt`;
  requirePrompt(context, "can't prompt for the key", pipe);
}

/** @throws CliError if the command can't prompt */
function requirePrompt(context: CommandContext, message: string, hint: string): void {
  if (!canPrompt(context)) throw usageError(message, hint);
}

/** Extracts the key from pasted text, which may have quotes or `Bearer` around it. */
const keyIn = (text: string): string =>
  text
    .trim()
    .replace(/^Bearer\s+/i, '')
    .replace(/^(["'])(.*)\1$/, '$2');

/**
 * Describes what is wrong with a key; undefined if the key is valid. The key is checked before a request, because
 * Node's error for a header with a line break would contain the key.
 */
function keyProblem(text: string): string | undefined {
  const key = keyIn(text);
  if (/^https?:\/\//i.test(key)) return 'this is a URL, not a key';
  if (API_KEY_PATTERN.test(key)) return undefined;
  if (key === '') return 'the key is empty';
  return /\s/.test(key) ? 'the key contains a space or a line break' : 'the key contains invalid characters';
}
