import ts from 'typescript';

/** JSON that the program wrote. The type of `field` in the type `root` (`Output` or `Message`) must match the JSON. */
export type Sample = { root: string; field: string; json: string };

export type CheckResult = {
  /** Compiler errors of samples that have an extra field, a missing field or a wrong type. */
  errors: string[];
  /** Declared fields and values that no sample has, and optional fields that every sample has. */
  unseen: string[];
};

const FILE = 'json-output.ts';

/**
 * `Exact` rejects objects that mix the fields of several members of a union. The compiler alone accepts such objects.
 * The interfaces replace the compiler's own library, which takes long to load.
 */
const PRELUDE = `
type KeysOf<T> = T extends unknown ? keyof T : never;
type Exact<T, All extends PropertyKey = KeysOf<T>> =
  unknown extends T ? T
  : T extends (infer Element)[] ? Exact<Element>[]
  : T extends object ? { [K in keyof T]: Exact<T[K]> } & { [K in All as K extends keyof T ? never : K]?: never }
  : T;
type PropertyKey = string | number | symbol;
type Part<T> = { [K in keyof T]?: Exact<T[K]> };
interface Array<T> { length: number; [index: number]: T }
interface Boolean {} interface CallableFunction {} interface Function {} interface IArguments {}
interface NewableFunction {} interface Number {} interface Object {} interface RegExp {} interface String {}
`;

/** Compiles each sample as a literal of its declared type, and looks for a sample of every declaration. */
export function checkSamples(declarations: string, samples: readonly Sample[]): CheckResult {
  const checks = samples.map(
    ({ root, field, json }) => `void ({ ${JSON.stringify(field)}: ${json.trim()} } satisfies Part<${root}>);`,
  );
  const { file, checker, errors } = compile([PRELUDE, declarations, ...checks].join('\n'));
  const seen = new Set<ts.Node>();
  const missing = new Set<ts.Node>();
  const values = new Set<string>();
  const unseen: string[] = [];

  function visitSample(node: ts.Node): void {
    values.add(node.getText());
    if (ts.isObjectLiteralExpression(node)) {
      const names = node.properties.map(({ name }) => name && (name as ts.StringLiteral).text);
      const declared = checker.getContextualType(node);
      const type = checker.getTypeAtLocation(node);
      const members = declared?.isUnion() ? declared.types : [declared];
      const member = members.find((each) => each && checker.isTypeAssignableTo(type, each));
      for (const property of member?.getProperties() ?? [])
        for (const declaration of property.declarations ?? [])
          (names.includes(property.name) ? seen : missing).add(declaration);
    }
    ts.forEachChild(node, visitSample);
  }

  function visitDeclaration(node: ts.Node): void {
    if (ts.isPropertySignature(node)) {
      const name = `${ts.findAncestor(node, ts.isTypeAliasDeclaration)?.name.text}.${node.name.getText()}`;
      if (!seen.has(node)) unseen.push(`${name}: no sample has it`);
      else if (node.questionToken && !missing.has(node)) unseen.push(`${name}: every sample has it`);
    }
    const value = node.getText().replaceAll("'", '"');
    if (ts.isLiteralTypeNode(node) && !values.has(value)) unseen.push(`${value}: no sample has this value`);
    ts.forEachChild(node, visitDeclaration);
  }

  file.statements.filter(ts.isExpressionStatement).forEach(visitSample);
  file.statements.filter(ts.isTypeAliasDeclaration).forEach(visitDeclaration);
  return { errors, unseen };
}

function compile(text: string): { file: ts.SourceFile; checker: ts.TypeChecker; errors: string[] } {
  const options: ts.CompilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noLib: true,
    types: [],
  };
  const file = ts.createSourceFile(FILE, text, ts.ScriptTarget.ES2023, true);
  const host: ts.CompilerHost = {
    ...ts.createCompilerHost(options),
    getSourceFile: (name) => (name === FILE ? file : undefined),
  };
  const program = ts.createProgram([FILE], options, host);
  const diagnostics = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
  const errors = diagnostics.map(({ messageText, start = 0 }) => {
    const { line } = file.getLineAndCharacterOfPosition(start);
    const source = text.split('\n')[line] ?? '';
    return `${ts.flattenDiagnosticMessageText(messageText, '\n')}\n  in: ${source.slice(0, 300)}`;
  });
  return { file, checker: program.getTypeChecker(), errors };
}
