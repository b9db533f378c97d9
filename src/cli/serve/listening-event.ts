import type { PlanName } from '../../contract/plans.ts';
import type { Service } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { formatCount } from '../output/format-count.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { shellQuote, withEnvironment } from '../output/shell-words.ts';
import { placeFromVariable } from '../profiles/location.ts';
import type { CommandContext } from '../program/command.ts';
import type { DevKey } from './dev-key.ts';
import { describeFaults } from './faults.ts';
import { DEFAULT_PLAN, type ServeOptions } from './options.ts';

export type Started = {
  location: StoreLocation;
  devKey: DevKey | undefined;
  /** The URL of another store's running service, to which profile `local` still points. */
  otherService: string | undefined;
};

/** The API key to print; undefined if there is none, or if the user has chosen it. */
const printedKey = (devKey: DevKey | undefined): string | undefined =>
  devKey?.source === undefined ? devKey?.key : undefined;

/** The event that `--json` prints when the server listens. */
export function listeningEvent(
  { url, port, seeded, faults, tools, store }: Service,
  { location, devKey }: Started,
  animals: number,
  pid: number,
): Record<string, unknown> {
  const key = printedKey(devKey);
  return {
    event: 'listening',
    url,
    port,
    pid,
    store: store.id,
    directory: location.place,
    animals,
    seeded,
    ...(faults && describeFaults(faults) && { faults }),
    ...(key && { key }),
    ...(devKey && { plan: devKey.plan }),
    ...(tools && { pageToken: tools.token }),
  };
}

/** The lines that are printed when the server listens. */
export function listeningText(
  { url, faults, tools }: Service,
  { location, devKey, otherService }: Started,
  animals: number,
  options: ServeOptions,
  context: CommandContext,
): string {
  const { bold, cyan, dim } = context.console.colours;
  const described = faults && describeFaults(faults);
  const key = printedKey(devKey);
  const path = sanitizeForTerminal(location.place);
  const variables = { PETS_BASE_URL: url, PETS_API_KEY: key ?? '<key>' };
  const isInProfile = options.profile && devKey?.key !== undefined && otherService === undefined;
  const next = isInProfile
    ? 'pets --profile local list'
    : withEnvironment(variables, 'pets list', context.platform);
  return [
    `${bold('pets serve')} ${cyan(url)}`,
    `  ${formatCount(animals, 'animal')} in ${path}${options.ephemeral ? ' (deleted on exit)' : ''}`,
    devKey?.key === undefined
      ? `  no API key of this store is saved here; create one: ${addKeyCommand(location, devKey?.plan ?? options.plan ?? DEFAULT_PLAN, options, context)}`
      : `  API key ${key ?? `from ${sanitizeForTerminal(devKey.source ?? '')}`} (plan ${devKey.plan})`,
    ...(described ? [`  ${described}`] : []),
    ...(tools ? [`  page ${cyan(tools.url)}`] : []),
    `  ${dim('try:')} ${next}`,
  ].join('\n');
}

/** The command that adds a key to the store. It needs no --data if PETS_DATA names the store. */
export function addKeyCommand(
  { place }: StoreLocation,
  plan: PlanName,
  options: ServeOptions,
  context: CommandContext,
): string {
  const isFromVariable = options.data === undefined && placeFromVariable(context.env) !== undefined;
  const words = ['--plan', plan, '--save', ...(isFromVariable ? [] : ['--data', place])];
  return `pets keys add <name> ${sanitizeForTerminal(shellQuote(words, context.platform))}`;
}
