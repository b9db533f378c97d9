import type { FaultSettings, LoggedRequest } from './api-types.ts';
import { targetOf } from './curl.ts';

export type Rule = NonNullable<FaultSettings['rules']>[number];
/** A rule as a user sets it. */
type NewRule = Omit<Rule, 'latency'> & { latency?: number };

/** Whether a fault can still affect a request. */
export const areFaultsActive = ({ latency, failRate = 0, rules = [] }: FaultSettings): boolean =>
  latency !== undefined || failRate > 0 || rules.some((rule) => !isUsedUp(rule));

export const isUsedUp = ({ times, applied = 0 }: Rule): boolean => times !== undefined && applied >= times;

/** The texts in the fields of the form. */
export type FaultForm = Record<'min' | 'max' | 'failRate' | 'rules', string>;

export const formOf = ({ latency, failRate = 0, rules = [] }: FaultSettings): FaultForm => ({
  min: String(latency?.min ?? ''),
  max: String(latency?.max ?? ''),
  failRate: failRate > 0 ? String(Number((failRate * 100).toPrecision(6))) : '',
  rules: rules.length === 0 ? '' : formatRules(rules.map(({ applied: _applied, ...rule }) => rule)),
});

const formatRules = (rules: readonly unknown[]): string =>
  `[\n  ${rules.map((rule) => JSON.stringify(rule)).join(',\n  ')}\n]`;

/** Puts a rule before those in a text. @throws Error if the text is not a JSON array */
export const addRule = (text: string, rule: NewRule): string => formatRules([rule, ...readRules(text)]);

function readRules(text: string): unknown[] {
  try {
    const rules: unknown = JSON.parse(text.trim() || '[]');
    if (Array.isArray(rules)) return rules;
  } catch {}
  throw new Error('The rules are not a JSON array');
}

/**
 * Formats the fields as a body of `PUT /faults`. Empty fields are left out; the service checks all values.
 *
 * @throws Error if the rules are not a JSON array
 */
export function readFaultForm({ min, max, failRate, rules }: FaultForm): string {
  const shortest = min || max;
  const members = [
    shortest !== '' && `"latency":{"min":${shortest},"max":${max || min}}`,
    failRate !== '' && `"failRate":${Number(failRate) / 100}`,
    readRules(rules).length > 0 && `"rules":${rules}`,
  ];
  return `{${members.filter((member) => member !== false).join(',')}}`;
}

export const ruleExamples: readonly { title: string; rule: NewRule }[] = [
  {
    title: 'Fail twice, then succeed',
    rule: { match: { method: 'POST', path: '/v1/pets' }, answer: 503, times: 2, retryAfter: 1 },
  },
  { title: 'Refuse the next request', rule: { answer: 429, times: 1, retryAfter: 2 } },
  { title: 'Slow list', rule: { match: { method: 'GET', path: '/v1/pets' }, latency: 2_000 } },
  { title: 'One animal fails', rule: { match: { path: '/v1/pets/7' }, answer: 500 } },
];

/** What can happen to the next request like one that was recorded. */
export const failures = {
  '429': { answer: 429, retryAfter: 2 },
  '503': { answer: 503, retryAfter: 2 },
  slow: { latency: 3_000 },
} as const;

/** The rule for the next request like this one; undefined if no rule can match it. */
export function ruleForNext(
  { method, url, operation }: Pick<LoggedRequest, 'method' | 'url' | 'operation'>,
  failure: keyof typeof failures,
): NewRule | undefined {
  // Names of operations have no slash; unversioned routes are their paths.
  if (operation === undefined || operation.includes('/') || method === 'OPTIONS') return undefined;
  const [path = ''] = targetOf(url).split('?');
  // Any id matches, so that the rule affects the whole operation.
  const match = { method: method as 'GET', path: path.replace(/\/\d+$/, '/{id}') };
  return { match, ...failures[failure], times: 1 };
}
