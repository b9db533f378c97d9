import type { FaultSettings, LoggedRequest } from './api-types.ts';
import { targetOf } from './curl.ts';

export type Rule = NonNullable<FaultSettings['rules']>[number];
/** A rule as a user sets it. */
type NewRule = Omit<Rule, 'latency'> & { latency?: number };
type Match = NonNullable<Rule['match']>;
/** A rule for one request, and the number of the last request before the rule was added. */
export type AddedRule = { match: Match | undefined; answer?: number | undefined; after: number };

/** Whether a fault can still affect a request. */
export const areFaultsActive = ({ latency, failRate = 0, rules = [] }: FaultSettings): boolean =>
  latency !== undefined || failRate > 0 || rules.some((rule) => !isUsedUp(rule));

export const isUsedUp = ({ times, applied = 0 }: Rule): boolean => times !== undefined && applied >= times;

/** The texts in the fields of the form. The times are in seconds, `failRate` is in percent, and `rules` is JSON. */
export type FaultForm = Record<'min' | 'max' | 'failRate' | 'rules', string>;

export const formOf = ({ latency, failRate = 0, rules = [] }: FaultSettings): FaultForm => ({
  min: seconds(latency?.min),
  max: seconds(latency?.max),
  failRate: failRate > 0 ? String(Number((failRate * 100).toPrecision(6))) : '',
  rules: formatRules(rules.filter((rule) => !isUsedUp(rule)).map(({ applied: _, ...rule }) => rule)),
});

const seconds = (milliseconds?: number): string =>
  milliseconds === undefined ? '' : String(milliseconds / 1_000);

const formatRules = (rules: readonly unknown[]): string =>
  rules.length === 0 ? '' : `[\n  ${rules.map((rule) => JSON.stringify(rule)).join(',\n  ')}\n]`;

/** Puts a rule before those in a text. @throws Error if the text is not a JSON array */
export const addRule = (text: string, rule: NewRule): string => formatRules([rule, ...readRules(text)]);

function readRules(text: string): unknown[] {
  try {
    const rules: unknown = JSON.parse(text.trim() || '[]');
    if (Array.isArray(rules)) return rules;
  } catch (error) {
    throw new Error(`The rules are not valid JSON: ${(error as Error).message}`);
  }
  throw new Error('The rules are not a JSON array');
}

/** Reads a field. @throws Error if it is not a number from 0 to `max` */
function readNumber(text: string, field: string, max: number): number {
  const value = Number(text.replace(',', '.'));
  if (value >= 0 && value <= max) return value;
  throw new Error(`${field} must be a number from 0 to ${max}`);
}

/**
 * Formats the fields as a body of `PUT /faults`, without empty fields. A single latency is both `min` and `max`.
 *
 * @throws Error if the rules are not a JSON array, or another field is not a number in its range
 */
export function readForm({ min, max, failRate, rules: text }: FaultForm): string {
  const rules = readRules(text);
  const latency = (text: string) => Math.round(readNumber(text, 'The latency in seconds', 600) * 1_000);
  const members = [
    (min || max) !== '' && `"latency":{"min":${latency(min || max)},"max":${latency(max || min)}}`,
    failRate !== '' && `"failRate":${readNumber(failRate, 'The share of requests that fail', 100) / 100}`,
    rules.length > 0 && `"rules":${JSON.stringify(rules)}`,
  ];
  return `{${members.filter((member) => member !== false).join(',')}}`;
}

export const ruleExamples: readonly { title: string; rule: NewRule }[] = [
  {
    title: 'Fail twice, then succeed',
    rule: { match: { method: 'POST', path: '/v1/pets' }, answer: 503, times: 2, retryAfter: 1 },
  },
  { title: 'Slow list', rule: { match: { method: 'GET', path: '/v1/pets' }, latency: 2_000 } },
  { title: 'One animal fails', rule: { match: { path: '/v1/pets/7' }, answer: 500 } },
];

/** The faults that can be added for the next request, by the labels of their buttons. */
export const nextRequestFaults: Readonly<Record<string, NewRule>> = {
  'Fail next with 503': { answer: 503, times: 1, retryAfter: 2 },
  'Fail next with 429': { answer: 429, times: 1, retryAfter: 2 },
  'Delay next by 3 s': { latency: 3_000, times: 1 },
};

/** The choices of requests in the view of the faults. The first one matches any request. */
export const matchChoices: readonly Match[] = [
  {},
  { method: 'GET', path: '/v1/pets' },
  { method: 'POST', path: '/v1/pets' },
  { method: 'GET', path: '/v1/pets/{petId}' },
  { method: 'GET', path: '/v1/store/orders' },
];

/** The `match` of a rule that applies to a request; undefined if no rule can match the request. */
export function matchOf({
  method,
  url,
  operation,
}: Pick<LoggedRequest, 'method' | 'url' | 'operation'>): Match | undefined {
  // The names of operations have no slash. Other routes are named by their paths, such as `/openapi.json`.
  if (operation === undefined || operation.includes('/') || method === 'OPTIONS') return undefined;
  const path = targetOf(url).replace(/\?.*/s, '');
  // Match any id, so that the rule affects the whole operation.
  return {
    method: method as 'GET',
    path: operation === 'getPet' ? path.replace(/[^/]+$/, '{petId}') : path,
  };
}

export const nameMatch = ({ method, path }: Match = {}): string =>
  [method, path].filter(Boolean).join(' ') || 'any request';

export function effectOf({ answer, retryAfter, latency }: Rule): string {
  const retry = retryAfter === undefined ? '' : `, Retry-After ${retryAfter} s`;
  const effects = [latency && `takes ${formatLatency(latency)} longer`, answer && `gets ${answer}${retry}`];
  return effects.filter(Boolean).join(' and ');
}

/** Formats a range of milliseconds in seconds, such as `0.1 to 0.3 s`. */
export const formatLatency = ({ min, max }: { min: number; max: number }): string =>
  min === max ? `${seconds(min)} s` : `${seconds(min)} to ${seconds(max)} s`;

/** The number of the first request that an added rule decided about; undefined if there is none yet. */
export const affectedRequestNumber = (
  added: AddedRule | undefined,
  requests: readonly LoggedRequest[],
): number | undefined =>
  added &&
  requests.findLast((each) => {
    const match = matchOf(each);
    return (
      each.number > added.after &&
      match !== undefined &&
      [match, {}].some((one) => JSON.stringify(one) === JSON.stringify(added.match)) &&
      (added.answer === undefined ? /delayed/.test(each.because) : each.outcome === 'injected_fault')
    );
  })?.number;
