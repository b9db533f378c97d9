// The reference on the page of the developer tools: HTML made from the OpenAPI description of the service.
import { API_PREFIX, type Operation, type OperationName, operations } from '../src/contract/operations.ts';
import { openApiDocument } from '../src/server/openapi/document.ts';

/** The page replaces this address by its own. */
const ORIGIN = 'http://127.0.0.1:7387';

type Described = ReturnType<typeof openApiDocument>['paths'][string][string];

/** Returns an article for each operation. */
export function referenceHtml(): string {
  const { paths } = openApiDocument();
  return (Object.keys(operations) as OperationName[])
    .map((name) => {
      const operation: Operation = operations[name];
      const described = paths[operation.path]?.[operation.method.toLowerCase()];
      if (described === undefined) throw new Error(`${name} is not described`);
      return article(name, operation, described);
    })
    .join('\n');
}

function article(name: string, { method, path }: Operation, described: Described): string {
  const { summary, description, deprecated, parameters, requestBody, responses } = described;
  const example = requestBody?.content['application/json'].example;
  return `<article aria-labelledby="${name}">
    <h3 id="${name}"><span class="method">${method}</span> ${API_PREFIX}${path}</h3>
    <p>${deprecated ? '<span class="outcome deprecated">deprecated</span> ' : ''}<strong>${summary}.</strong> ${inline(description.split('\n\n')[0] ?? '')}</p>
    ${parameterList(parameters)}
    <pre tabindex="0" role="region" aria-label="Example: ${summary}">${escapeHtml(command(path, example))}</pre>
    <p class="note">Responses: ${Object.keys(responses).join(', ')}</p>
  </article>`;
}

const parameterList = (parameters: Described['parameters']): string =>
  parameters.length === 0
    ? ''
    : `<dl>${parameters
        .map(
          ({ name, in: place, ...rest }) =>
            `<div><dt><code>${name}</code> ${place}</dt><dd>${inline('description' in rest ? String(rest.description) : '')}</dd></div>`,
        )
        .join('')}</dl>`;

const command = (path: string, body: unknown): string =>
  [
    'curl -H "Authorization: Bearer $PETS_API_KEY"',
    ...(body === undefined
      ? []
      : ["-H 'Content-Type: application/json'", `--data-raw '${JSON.stringify(body)}'`]),
    ORIGIN + API_PREFIX + path.replace('{petId}', '1'),
  ].join(' \\\n  ');

/** Converts the Markdown of descriptions, which has code and nothing else. */
const inline = (text: string): string => escapeHtml(text).replace(/`([^`]*)`/g, '<code>$1</code>');

const escapeHtml = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
