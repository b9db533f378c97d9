/** The texts in the fields of the form. */
type FaultForm = Record<'min' | 'max' | 'failRate' | 'rules', string>;

/** Formats the fields as a body of `PUT /faults`. Empty fields are left out; the service checks all values. */
export function readFaultForm({ min, max, failRate, rules }: FaultForm): string {
  const shortest = min || max;
  const members = [
    shortest !== '' && `"latency":{"min":${shortest},"max":${max || min}}`,
    failRate !== '' && `"failRate":${Number(failRate) / 100}`,
    rules.trim() !== '' && `"rules":${rules}`,
  ];
  return `{${members.filter((member) => member !== false).join(',')}}`;
}

const example = (title: string, rule: string) => ({ title, rules: `[\n  ${rule}\n]` });

export const ruleExamples = [
  example(
    'Fail twice, then succeed',
    '{ "match": { "method": "POST", "path": "/v1/pets" }, "answer": 503, "times": 2, "retryAfter": 1 }',
  ),
  example('Refuse the next request', '{ "answer": 429, "times": 1, "retryAfter": 2 }'),
  example(
    'Slow list',
    '{ "match": { "method": "GET", "path": "/v1/pets" }, "latency": { "min": 1000, "max": 3000 } }',
  ),
  example('One animal fails', '{ "match": { "path": "/v1/pets/7" }, "answer": 500 }'),
] as const;
