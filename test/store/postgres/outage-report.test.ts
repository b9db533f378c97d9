import { expect, it } from 'vitest';
import { OutageReport } from '../../../src/store/postgres/calls/outage-report.ts';
import { manualClock } from '../../helpers/clock.ts';

function reportOf() {
  const clock = manualClock();
  const warnings: string[] = [];
  const report = new OutageReport('postgres://db', clock.elapsed, (message) => warnings.push(message));
  return { clock, warnings, report };
}

const refused = new Error('refused');
const BEGIN = 'refused; requests that need this get 503';
const END = 'postgres://db can be used again';

it('reports an outage of several connections once, and its end when all of them succeed again', () => {
  const { report, warnings } = reportOf();
  for (const connection of ['a', 'b', 'a']) report.failed(connection, refused);
  expect(warnings).toEqual([BEGIN]);
  report.succeeded('a');
  expect(warnings).toEqual([BEGIN]);
  report.succeeded('b');
  report.succeeded('b');
  expect(warnings).toEqual([BEGIN, END]);
});

it('reports nothing while calls succeed', () => {
  const { report, warnings } = reportOf();
  for (const connection of ['a', 'b']) report.succeeded(connection);
  expect(warnings).toEqual([]);
});

it('reports another failure, but the same one only after ten seconds', () => {
  const { report, warnings, clock } = reportOf();
  const fail = (error: Error) => {
    report.failed('a', error);
    report.succeeded('a');
  };
  fail(refused);
  fail(refused);
  expect(warnings).toEqual([BEGIN, END]);
  fail(new Error('read-only'));
  clock.advance(10_000);
  fail(refused);
  expect(warnings).toEqual([BEGIN, END, 'read-only; requests that need this get 503', END, BEGIN, END]);
});
