import type { PetPage } from '../../client/pages.ts';
import { pageSize } from '../../contract/operations.ts';
import { followUpCommand, footerLabel, targetLabel } from '../connection/connect.ts';
import { formatCount } from '../output/format-count.ts';
import type { Connection } from '../profiles/profile.ts';
import type { CommandContext } from '../program/command.ts';
import { type Filters, needsAllPages, type Selection } from './selection.ts';

/** The result of a list. */
export type Listed = {
  /** The number of animals shown. */
  shown: number;
  /** The number of animals that meet the conditions, as far as pages were read. */
  found: number;
  more: PetPage['more'];
  /** What was read, if the command reads all pages. */
  pages?: number;
  requests?: number;
  isAnnounced?: boolean;
  /** What was done with the animals; by default `shown`. */
  verb?: 'shown' | 'counted';
};

/**
 * The notice below a list: how many animals it shows, what they cost, and how to list more. Undefined if no notice is
 * needed.
 */
export function listFooter(
  context: CommandContext,
  connection: Connection,
  listed: Listed,
  selection: Selection,
): string | undefined {
  const { isTerminal, isFile, format } = context.console;
  const { shown, found, more, isAnnounced, verb = 'shown' } = listed;
  if (isTerminal && found === 0 && more === 'no') return emptyFooter(context, connection, listed, selection);
  // A footer below a table, or about a file, names the service and the conditions.
  const isFull = isFile ? context.stderr.isTTY === true : isTerminal && format === 'rows';
  const hint = isFull ? moreHintOnTerminal(context, listed, selection) : moreHint(listed, selection);
  if (!isFull && !isAnnounced && hint === undefined && shown === found) return undefined;
  const count = shown < found ? `${shown} of ${formatCount(found, 'animal')}` : formatCount(shown, 'animal');
  // Scripts know which profile they use.
  const label = isFull || context.stderr.isTTY === true ? footerLabel(context, connection) : '';
  const parts = [
    `${count}${isFull ? '' : ` ${verb}`}${label}`,
    ...(isFull || isAnnounced ? describeFilters(selection) : []),
    ...(isFull || isAnnounced ? costOf(listed) : []),
  ];
  return parts.join(', ') + (hint === undefined ? '' : `. ${hint}`);
}

function emptyFooter(
  context: CommandContext,
  connection: Connection,
  listed: Listed,
  { status, ...others }: Selection,
): string {
  const target = targetLabel(connection);
  const filters = describeFilters(others);
  if (!status && filters.length === 0)
    return `no animals at ${target}. Add one: ${followUpCommand(context, 'add')} <name> --category <id>`;
  const conditions = filters.length > 0 ? ` with ${filters.join(' and ')}` : '';
  const animals = `no ${status ? `${status} ` : ''}animals at ${target}${conditions}`;
  return `${[animals, ...costOf(listed)].join(', ')}. See all: ${followUpCommand(context, 'list')} --all`;
}

const STOPPED = 'Stopped at --limit; there may be more';
const NO_LINK = 'There may be more animals; the service sends no link to a next page';

/** How to list the animals that were not listed; undefined if all were. */
function moreHintOnTerminal(
  context: CommandContext,
  { shown, more }: Listed,
  selection: Selection,
): string | undefined {
  const { status, all } = selection;
  if (more === 'no') return undefined;
  const command = `${followUpCommand(context, 'list')}${status ? ` --status ${status}` : ''}`;
  if (more === 'yes') return needsAllPages(selection) ? STOPPED : `More available: ${command} --all`;
  if (all || needsAllPages(selection) || shown >= pageSize.max) return NO_LINK;
  return `${NO_LINK}. For a larger page: ${command} --limit ${pageSize.max}`;
}

/** Like `moreHintOnTerminal`, but without commands, because a script may run any command. */
function moreHint({ more }: Listed, selection: Selection): string | undefined {
  if (more === 'no') return undefined;
  if (more === 'unknown') return NO_LINK;
  return needsAllPages(selection) ? STOPPED : 'For all animals, add --all';
}

/** The conditions as a footer shows them, such as `status sold`, `name "rex"` and `category 3 or 4`. */
function describeFilters({ status, name, category }: Filters): string[] {
  return [
    ...(status ? [`status ${status}`] : []),
    ...(name ? [`name ${name.shown}`] : []),
    ...(category ? [`category ${category.join(' or ')}`] : []),
  ];
}

/** What reading several pages has cost. */
function costOf({ pages = 1, requests = 1 }: Listed): string[] {
  return pages === 1 ? [] : [`read ${pages} pages (${formatCount(requests, 'request')})`];
}
