import ts from 'typescript';

/** JSON that the program wrote. A field of a root type (`Output` or `Message`) declares its type. */
export type Sample = { root: string; field: string; json: string };

export type CheckResult = {
  /** Samples that do not have their declared type: an extra field, a missing field, a wrong type. */
  errors: string[];
  /** Declarations without a sample: a field, the absence of an optional field, a value of a union. */
  unseen: string[];
};

const FILE = 'json-output.ts';

/** Compiles each sample as a literal of its declared type, and looks for a sample of every declaration. */
export function checkSamples(declarations: string, samples: readonly Sample[]): CheckResult {
  const lines = samples.map(
    ({ root, field, json }, i) =>
      `export const sample${i}: ${root}[${JSON.stringify(field)}] = ${json.trim()};`,
  );
  const { file, checker, messages } = compile(`${declarations}\n${lines.join('\n')}\n`);
  const errors = [...messages];
  const seen = new Set<ts.Node>();
  const missing = new Set<ts.Node>();
  const values = new Set<string>();

  function walk(node: ts.Expression, type: ts.Type, path: string): void {
    if (ts.isArrayLiteralExpression(node)) {
      const element = membersOf(type).map((each) => checker.getIndexTypeOfType(each, ts.IndexKind.Number));
      node.elements.forEach((each, i) => {
        walk(each, element.find((found) => found !== undefined) ?? type, `${path}[${i}]`);
      });
    } else if (ts.isObjectLiteralExpression(node)) walkObject(node, type, path);
    else values.add(node.getText(file));
  }

  /** The compiler accepts a literal that mixes members of a union; this check does not. */
  function walkObject(node: ts.ObjectLiteralExpression, type: ts.Type, path: string): void {
    if (type.flags & ts.TypeFlags.Unknown) return;
    const fields = new Map(
      node.properties
        .filter(ts.isPropertyAssignment)
        .map(({ name, initializer }) => [nameOf(name), initializer]),
    );
    const member = membersOf(type).find((each) => fits(each, fields));
    if (member === undefined) {
      errors.push(`${path} has the fields ${[...fields.keys()].join(', ')}: no declared type has these`);
      return;
    }
    for (const property of member.getProperties()) {
      const value = fields.get(property.name);
      for (const declaration of property.declarations ?? []) (value ? seen : missing).add(declaration);
      if (value) walk(value, checker.getTypeOfSymbol(property), `${path}.${property.name}`);
    }
  }

  function fits(type: ts.Type, fields: ReadonlyMap<string, ts.Expression>): boolean {
    if (type.getStringIndexType() !== undefined) return true;
    const properties = type.getProperties();
    const isOptional = ({ flags }: ts.Symbol) => (flags & ts.SymbolFlags.Optional) !== 0;
    return (
      properties.every((each) => isOptional(each) || fields.has(each.name)) &&
      [...fields].every(([name, value]) => {
        const property = properties.find((each) => each.name === name);
        return property !== undefined && mayBe(value, checker.getTypeOfSymbol(property));
      })
    );
  }

  /** A field with a literal type, such as `event`, distinguishes the members of a union. */
  function mayBe(value: ts.Expression, type: ts.Type): boolean {
    return !ts.isStringLiteral(value) || !type.isStringLiteral() || type.value === value.text;
  }

  const roots = new Map(
    file.statements.filter(ts.isTypeAliasDeclaration).map((alias) => [alias.name.text, alias.type]),
  );
  for (const [i, { root, field }] of samples.entries()) {
    const property =
      roots.get(root) && checker.getTypeAtLocation(roots.get(root) as ts.Node).getProperty(field);
    if (property === undefined) {
      errors.push(`${root} has no ${field}`);
      continue;
    }
    for (const declaration of property.declarations ?? []) seen.add(declaration);
    const literal = declarationOf(file, `sample${i}`);
    walk(literal, checker.getTypeOfSymbol(property), `${root}[${field}]`);
  }
  return { errors: [...new Set(errors)], unseen: [...unseenIn(file)] };

  function* unseenIn(node: ts.Node): Generator<string> {
    if (ts.isPropertySignature(node)) {
      const name = nameOf(node.name);
      const type = ts.findAncestor(node, ts.isTypeAliasDeclaration)?.name.text;
      if (!seen.has(node)) yield `${type}.${name}: no sample has it`;
      else if (node.questionToken && !missing.has(node)) yield `${type}.${name}: every sample has it`;
    }
    if (ts.isLiteralTypeNode(node) && !ts.isIndexedAccessTypeNode(node.parent)) {
      const value = checker.typeToString(checker.getTypeFromTypeNode(node));
      if (!values.has(value)) yield `${value}: no sample has this value`;
    }
    for (const child of node.getChildren(file)) yield* unseenIn(child);
  }
}

function compile(text: string): { file: ts.SourceFile; checker: ts.TypeChecker; messages: string[] } {
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    exactOptionalPropertyTypes: true,
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.ESNext,
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const file = ts.createSourceFile(FILE, text, ts.ScriptTarget.ES2023, true);
  const { getSourceFile } = host;
  const program = ts.createProgram([FILE], options, {
    ...host,
    getSourceFile: (name, ...rest) => (name === FILE ? file : getSourceFile(name, ...rest)),
  });
  const diagnostics = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
  const messages = diagnostics.map(({ messageText, start = 0 }) => {
    const { line } = file.getLineAndCharacterOfPosition(start);
    const source = text.split('\n')[line] ?? '';
    return `${ts.flattenDiagnosticMessageText(messageText, '\n')}\n  in: ${source.slice(0, 300)}`;
  });
  return { file, checker: program.getTypeChecker(), messages };
}

const membersOf = (type: ts.Type): ts.Type[] => (type.isUnion() ? type.types : [type]);

const nameOf = (name: ts.PropertyName): string => (ts.isComputedPropertyName(name) ? '' : name.text);

function declarationOf(file: ts.SourceFile, name: string): ts.Expression {
  for (const statement of file.statements.filter(ts.isVariableStatement)) {
    const [declaration] = statement.declarationList.declarations;
    if (declaration?.name.getText(file) === name && declaration.initializer) return declaration.initializer;
  }
  throw new Error(`${name} is not in the file`);
}
