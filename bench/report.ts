import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname } from 'node:path';
import { median, type Samples } from './measure.ts';
import type { Bounds, Measured, Row, Side } from './rows.ts';

/** The date, the versions, the machine and the number of rounds of a measurement. */
export type Setting = ReturnType<typeof describeSetting>;

export function describeSetting(rounds: number) {
  const git = spawnSync('git', ['describe', '--always', '--dirty', '--exclude', '*'], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
  });
  return {
    date: new Date().toISOString(),
    commit: git.status === 0 ? git.stdout.trim() : undefined,
    node: process.version,
    platform: process.platform,
    cpu: cpus()[0]?.model,
    cores: cpus().length,
    rounds,
  };
}

/** Formats the setting and a table with one line per row as Markdown. */
export function table(
  { date, commit, node, platform, cpu, cores, rounds }: Setting,
  rows: readonly Row[],
): string {
  const where = `Node ${node}, ${platform}, ${cores} × ${cpu}, commit ${commit ?? 'unknown'}, ${date.slice(0, 10)}`;
  return [
    `${where}: medians of ${rounds} rounds (min–max). A ratio is the median of the rounds' own ratios.`,
    '',
    '| what | ratio | target | met | ours | peer |',
    '| ---- | ----- | ------ | --- | ---- | ---- |',
    ...rows.map(
      (row) => `| ${('missing' in row ? [row.what, row.missing, '', '', '', ''] : cells(row)).join(' | ')} |`,
    ),
  ].join('\n');
}

/** Writes every sample of every row as JSON. */
export function save(path: string, setting: Setting, rows: readonly Row[]): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify({ setting, rows }, null, 2)}\n`);
}

function cells({ what, figure, unit, values, bounds, ours, peer }: Measured): string[] {
  const range = `(${number(Math.min(...values))}–${number(Math.max(...values))})`;
  return [
    what,
    `${number(figure)}${unit && ` ${unit}`} ${range}`,
    describeBounds(bounds, unit),
    verdict(figure, bounds),
    side(ours),
    side(peer),
  ];
}

function side(of: Side | undefined): string {
  if (!of) return '';
  const { unit, samples } = of;
  return `${number(median(samples))} (${spread(samples)})${unit.startsWith('/') ? unit : ` ${unit}`}`;
}

const spread = (samples: Samples) => `${number(Math.min(...samples))}–${number(Math.max(...samples))}`;

function describeBounds(bounds: Bounds | undefined, unit: string): string {
  if (bounds === undefined || bounds === 'peer') return bounds ?? '';
  const { least, most } = bounds;
  const suffix = unit && ` ${unit}`;
  if (least !== undefined && most !== undefined) return `${number(least)}–${number(most)}${suffix}`;
  return least === undefined ? `≤ ${number(most ?? 0)}${suffix}` : `≥ ${number(least)}${suffix}`;
}

function verdict(figure: number, bounds: Bounds | undefined): string {
  if (bounds === undefined || bounds === 'peer') return '';
  const { least = Number.NEGATIVE_INFINITY, most = Number.POSITIVE_INFINITY } = bounds;
  return figure >= least && figure <= most ? 'yes' : 'no';
}

/** Formats a number with at least three digits. */
function number(value: number): string {
  const decimals = Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
  return value.toLocaleString('en', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}
