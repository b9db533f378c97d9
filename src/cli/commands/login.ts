import { API_PREFIX } from '../../contract/api.ts';
import { API_KEY_PATTERN } from '../../contract/headers.ts';
import { followUpCommand, isKeyRequired, listOne, probe, withClient } from '../connection/connect.ts';
import { CliError, usageError } from '../core/errors.ts';
import { exitCodes } from '../core/exit-codes.ts';
import { maskKey, sanitizeForTerminal } from '../output/text.ts';
import {
  type Connection,
  checkProtocol,
  checkUrl,
  chooseProfile,
  readProfile,
  saveJson,
} from '../profiles/profile.ts';
import { type Command, type CommandContext, option } from '../program/command.ts';
import { baseUrlOption, profileOption } from '../program/program.ts';
import { canPrompt, promptSecret, promptText, readStdin } from '../prompts/prompt.ts';

type Options = { verify: boolean };

export const login: Command<Options> = {
  name: 'login',
  summary: "save a service's address and API key as a profile",
  examples: [
    'pets login',
    'pets login --base-url https://api.example.com/v1',
    'pets login --profile staging --base-url https://staging.example/v1 < key.txt',
  ],
  options: [profileOption, baseUrlOption, option('--no-verify', 'save the key without sending any request')],
  extraHint:
    'for an address: --base-url <url>; for another profile: --profile staging; pets login asks for the key, or reads it: cat key.txt | pets login',
  notes:
    'At a terminal, pets login asks for the base URL if neither --base-url nor the profile has one, and then for the key. If standard input is not a terminal, it reads the key from there.',
  async run({ verify }, context) {
    const { console, env } = context;
    const profile = chooseProfile(context);
    const stored = readProfile(context, profile);
    const given = givenBaseUrl(context) ?? stored?.baseUrl ?? (await promptBaseUrl(context, profile));
    checkProtocol(given, env);
    // Read a piped key before any request is sent, because the key may be invalid.
    const piped = context.stdin.isTTY === true ? undefined : await readKey(context);
    if (piped === undefined && !canPrompt(context))
      throw usageError('cannot ask for a key (--no-input, CI set or stderr redirected)', pipeHint(context));
    const connection: Connection = { profile, baseUrl: given, key: '', keySource: 'this login' };
    const baseUrl = verify ? await findService(context, connection) : given;
    const check = async (key: string) => {
      if (verify) await withClient(context, { ...connection, baseUrl, key }, listOne);
      return key;
    };
    const message = `API key for profile ${profile} (${new URL(baseUrl).host})`;
    const key = await (piped === undefined ? promptKey(context, message, check) : check(piped));
    await saveJson(context, profile, { baseUrl, key });
    const isDefault = !(context.globals.profile || env['PETS_API_KEY'] || env['PETS_BASE_URL']);
    const next = `pets list${isDefault ? '' : ` --profile ${profile}`}`;
    console.notice(`saved key ${maskKey(key)} for ${baseUrl} to profile ${profile}. Next: ${next}`);
  },
};

const pipeHint = (context: CommandContext): string =>
  `pipe the key in: cat key.txt | ${followUpCommand(context, 'login')}`;

function givenBaseUrl({ globals, env }: CommandContext): string | undefined {
  if (globals.baseUrl !== undefined) return checkUrl(globals.baseUrl, '--base-url');
  const fromEnv = globals.profile === undefined && env['PETS_BASE_URL'];
  return fromEnv ? checkUrl(fromEnv, 'PETS_BASE_URL') : undefined;
}

async function promptBaseUrl(context: CommandContext, profile: string): Promise<string> {
  if (!canPrompt(context))
    throw usageError(
      `missing --base-url <url>; profile ${profile} has no base URL yet`,
      `for example: ${followUpCommand(context, 'login')} --base-url https://api.example.com/v1`,
    );
  const validate = (text: string) => {
    // A text that is neither a host nor a URL may be the key, so the message does not repeat it.
    if (!/[.:/]/.test(text))
      return 'this is not an address, such as https://api.example.com/v1; the next question is for the key';
    try {
      checkUrl(text, 'the address');
      return undefined;
    } catch (error) {
      const { message, hint } = error as CliError;
      return `${message}; ${hint}`;
    }
  };
  const prompt = "Address of your shop's service (ask the person who gave you the key)";
  return checkUrl(await promptText(context, prompt, validate), 'the address');
}

async function readKey(context: CommandContext): Promise<string> {
  const text = await readStdin(context);
  if (keyIn(text) === '')
    throw usageError('there is no key on standard input', `log in at a terminal, or ${pipeHint(context)}`);
  const problem = keyProblem(text);
  if (problem === undefined) return keyIn(text);
  throw new CliError(problem, { code: 'bad_key', hint: 'copy the key again' });
}

/**
 * Finds the base URL of the service: the given one, or else that with /v1 appended. The result is the first one that
 * responds with 401 to a request without a key. The key is not sent to any other URL.
 *
 * @throws CliError if the request fails in another way, for example without a connection, or succeeds; InterruptedError
 */
async function findService(context: CommandContext, connection: Connection): Promise<string> {
  const { baseUrl } = connection;
  const error = await probe(context, connection);
  if (isKeyRequired(error)) return baseUrl;
  const longer = `${baseUrl}${API_PREFIX}`;
  const hasResponded = error instanceof CliError && error.exitCode !== exitCodes.network;
  const canBeLonger = hasResponded && !baseUrl.endsWith(API_PREFIX);
  if (canBeLonger && isKeyRequired(await probe(context, { ...connection, baseUrl: longer }))) return longer;
  if (error instanceof CliError && error.exitCode === exitCodes.rateLimited)
    throw error.withHint('this limits requests without a key from your network; wait, or add --no-verify');
  if (error !== undefined) throw error;
  throw new CliError(`${baseUrl} did not ask for a key, so the key was not sent to it`, {
    code: 'contract_error',
    hint: 'check the base URL; to save the key without sending it, add --no-verify',
  });
}

/** Prompts until `check` accepts a key. If a rejected key ended the command, the user could type the next into the shell. */
async function promptKey(
  context: CommandContext,
  message: string,
  check: (key: string) => Promise<string>,
): Promise<string> {
  for (;;) {
    const key = keyIn(await promptSecret(context, message, keyProblem));
    try {
      return await check(key);
    } catch (error) {
      if (!(error instanceof CliError && error.exitCode === exitCodes.noKey)) throw error;
      const text = `${error.message}; try again, or press Ctrl-C`;
      // Not a note, which --quiet would leave out.
      context.console.event({ notice: text }, sanitizeForTerminal(text));
    }
  }
}

/** Extracts the key from pasted or piped text, which may have quotes around it or `Bearer` before it. */
const keyIn = (text: string): string =>
  text
    .trim()
    .replace(/^Bearer\s+/i, '')
    .replace(/^(["'])(.*)\1$/, '$2');

/**
 * Describes what is wrong with a key; undefined if the key is valid. The key is checked before a request, because
 * undici's error for an invalid header would not say what is wrong with the key.
 */
function keyProblem(text: string): string | undefined {
  const key = keyIn(text);
  if (/^https?:\/\//i.test(key)) return 'this is a URL, and not an API key';
  if (key === '') return 'the key is empty';
  return API_KEY_PATTERN.test(key) ? undefined : 'the key must be one line of visible ASCII, without spaces';
}

export const logout: Command<object> = {
  name: 'logout',
  summary: 'remove the API key from a profile',
  examples: ['pets logout', 'pets logout --profile staging'],
  extraHint: 'to log out of a profile: pets logout --profile <name>',
  async run(_options, context) {
    const { console } = context;
    const profile = chooseProfile(context);
    const stored = readProfile(context, profile);
    if (stored?.key === undefined) return void console.notice(`profile ${profile} has no key`);
    const { key: _, ...rest } = stored;
    await saveJson(context, profile, rest);
    console.notice(`removed the key from profile ${profile}`);
  },
};
