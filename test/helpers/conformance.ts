import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

/** Any JSON object of the OpenAPI document. Values that are not objects are cast where they are read. */
type Node = { [key: string]: Node };

export type Observed = { status: number; headers: Headers; text: string };

/** A value, its location for messages, and the schema that it must match. */
export type Sample = { where: string; schema: unknown; value: unknown };

/**
 * Validates responses against an OpenAPI 3.1 document.
 *
 * @param document the parsed JSON document
 */
export function conformance(document: unknown) {
  const root = document as Node;
  const ajv = new Ajv2020({ allErrors: true });
  addFormats.default(ajv);
  // Each schema is compiled together with the document's `components`, because schemas refer to them.
  ajv.addVocabulary(['components']);
  const compiled = new Map<unknown, ValidateFunction>();

  function resolve(node: Node): Node {
    const ref: unknown = node?.['$ref'];
    if (typeof ref !== 'string') return node;
    const target = ref
      .replace(/^#\//, '')
      .split('/')
      .reduce<Node | undefined>((at, key) => at?.[key.replaceAll('~1', '/').replaceAll('~0', '~')], root);
    if (target === undefined) throw new Error(`${ref} does not exist`);
    return resolve(target);
  }

  /** Validates a value; returns the errors. */
  function mismatches({ where, schema, value }: Sample): string[] {
    let validate = compiled.get(schema);
    if (validate === undefined) {
      validate = ajv.compile({ ...(schema as object), components: root['components'] });
      compiled.set(schema, validate);
    }
    if (validate(value)) return [];
    return (validate.errors ?? []).map(({ instancePath, message }) => `${where}${instancePath} ${message}`);
  }

  /** The operations that the document has for a path. The keys are methods in lower case. */
  function itemAt(path: string): Node | undefined {
    // The URL is relative in the contract's document, and absolute in the one that a service serves.
    const { pathname: base } = new URL(String(root['servers']?.[0]?.['url']), 'http://service');
    const target = path.replace(/[?#].*/, '');
    return Object.entries(root['paths'] ?? {}).find(([template]) =>
      matchesTemplate(base + template, target),
    )?.[1];
  }

  /** Validates a response; returns the differences from the document. */
  function violations(method: string, path: string, response: Observed): string[] {
    const item = itemAt(path);
    if (item === undefined) return [`${path} is not documented`];
    const operation = item[(method === 'HEAD' ? 'GET' : method).toLowerCase()];
    // An undocumented method gets an error, whose status must be documented for another method of the path.
    if (!operation && response.status < 400) return [`${method} ${path} is not documented`];
    const found = (operation ? [operation] : Object.values(item))
      .map((each) => each['responses']?.[response.status])
      .find((each) => each !== undefined);
    if (found === undefined) return [`${method} ${path}: status ${response.status} is not documented`];
    const described = resolve(found);
    return [...headerViolations(described, response), ...bodyViolations(method, described, response)];
  }

  function headerViolations(described: Node, { headers }: Observed): string[] {
    const documented = Object.entries(described['headers'] ?? {});
    const names = documented.map(([name]) => name.toLowerCase());
    const unexpected = headersAnywhere().filter((name) => headers.has(name) && !names.includes(name));
    return [
      ...unexpected.map((name) => `${name} is documented, but not for this response`),
      ...documented.flatMap(([name, reference]) => {
        const { required, schema } = resolve(reference);
        const value = headers.get(name);
        if (value === null) return required ? [`${name} is missing`] : [];
        return mismatches({ where: name, schema, value: decodeHeader(value, resolve(schema as Node)) });
      }),
    ];
  }

  function bodyViolations(method: string, described: Node, { headers, text }: Observed): string[] {
    if (method === 'HEAD') return text === '' ? [] : ['a HEAD has no body'];
    const type = headers.get('content-type')?.split(';')[0]?.trim() ?? '(none)';
    const media = described['content']?.[type];
    if (media === undefined) return [`Content-Type ${type} is not documented`];
    const value = parseJson(text);
    if (value === undefined) return ['the body is not JSON'];
    return mismatches({ where: 'body', schema: media['schema'], value });
  }

  /** The names of all headers that the document has for any response. */
  function headersAnywhere(): string[] {
    const all = Object.values(root['paths'] ?? {})
      .flatMap((item) => Object.values(item))
      .flatMap((operation) => Object.values(operation['responses'] ?? {}))
      .flatMap((response) => Object.keys(resolve(response)['headers'] ?? {}));
    return [...new Set(all.map((name) => name.toLowerCase()))];
  }

  /** Every example in the document that has a schema. */
  function examples(node: Node = root, where = '#'): Sample[] {
    if (typeof node !== 'object' || node === null) return [];
    const { schema, example, examples: several = {} } = node as Node;
    const here =
      schema === undefined
        ? []
        : [
            ...(example === undefined ? [] : [{ where: `${where}/example`, schema, value: example }]),
            ...Object.entries(several).map(([name, each]) => ({
              where: `${where}/examples/${name}`,
              schema,
              value: resolve(each)['value'],
            })),
          ];
    return [...here, ...Object.entries(node).flatMap(([key, each]) => examples(each, `${where}/${key}`))];
  }

  return {
    violations,
    mismatches,
    examples: () => examples(),
    describes: (path: string) => itemAt(path) !== undefined,
  };
}

function matchesTemplate(template: string, path: string): boolean {
  const [parts, segments] = [template.split('/'), path.split('/')];
  return (
    parts.length === segments.length &&
    parts.every((part, i) => (part.startsWith('{') ? segments[i] !== '' : part === segments[i]))
  );
}

/** Converts a header to the type in its schema. Returns unsuitable text unchanged, so that the validation fails. */
function decodeHeader(text: string, { type }: Node): unknown {
  const kind: unknown = type;
  if (kind === 'integer' && /^-?\d+$/.test(text)) return Number(text);
  if (kind === 'boolean' && /^(?:true|false)$/.test(text)) return text === 'true';
  return text;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
