import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { freePort } from '../support/base/free-port.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { compiledPrograms, type Program } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';

/** The alerts for Prometheus and the board for Grafana, against `/metrics` of both programs. */
interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}
interface Case {
  readonly name: string;
  readonly alert_rule_test: readonly { readonly exp_alerts: readonly unknown[] }[];
}
interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

const folder = 'deploy/prometheus';
const read = (path: string): string => readFileSync(path, 'utf8');
const alerts: readonly Alert[] = parse(read(`${folder}/agent-trust.rules.yaml`)).groups.flatMap(
  ({ rules }: { rules: Alert[] }) => rules,
);
const cases: readonly Case[] = parse(read(`${folder}/agent-trust.tests.yaml`)).tests;
const panels: readonly Panel[] = JSON.parse(read('deploy/grafana/agent-trust.json')).panels;
const page = read('docs/operate/alerts.md');

let files: ReturnType<typeof temporaryFolder>;
let program: Program;
let promtool: string;
/** The names of series that the programs serve. */
let served: ReadonlySet<string>;

const namesIn = (expression: string): readonly string[] => expression.match(/agent_trust_\w+/g) ?? [];

beforeAll(async () => {
  promtool = await sharedService('promtool');
  files = temporaryFolder();
  const ports = { PORT: String(await freePort()), SIDECAR_PORT: String(await freePort()) };
  program = (await compiledPrograms()).start(['start'], { ...ports, DATA_DIR: join(files.path, 'data') });
  await program.waitFor(/agent-trust is ready/);
  const texts = await Promise.all(
    Object.values(ports).map(async (port) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text()),
  );
  served = new Set(
    texts.flatMap((text) =>
      [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name, type]) =>
        type === 'histogram' ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [`${name}`],
      ),
    ),
  );
});
afterAll(async () => {
  await program?.stop();
  files.remove();
});

const promtoolSays = (...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(promtool, args, { encoding: 'utf8' });
  return { status, said: `${stdout}${stderr}` };
};

it('fires each alert in its case and keeps it silent before, by promtool', () => {
  expect(promtoolSays('check', 'rules', `${folder}/agent-trust.rules.yaml`)).toMatchObject({ status: 0 });
  const tried = promtoolSays('test', 'rules', `${folder}/agent-trust.tests.yaml`);
  expect(tried.said).toContain('SUCCESS');
  expect(tried.status).toBe(0);
});

it('has a case with a silent and a firing time for every alert', () => {
  expect(cases.map(({ name }) => name).sort()).toEqual(alerts.map(({ alert }) => alert).sort());
  for (const { name, alert_rule_test } of cases)
    expect(
      alert_rule_test.map(({ exp_alerts }) => exp_alerts.length > 0),
      name,
    ).toEqual([false, true]);
});

it('watches nothing in alerts and board that the programs do not serve', () => {
  const watched = [
    ...alerts.map(({ alert, expr }) => ({ where: alert, expr })),
    ...panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ where: title, expr }))),
  ];
  expect(watched.length).toBeGreaterThan(alerts.length);
  for (const { where, expr } of watched) {
    expect(namesIn(expr).length, where).toBeGreaterThan(0);
    for (const name of namesIn(expr)) expect(served, `${where}: ${name}`).toContain(name);
  }
});

it('has a section in the runbook for every alert, and for nothing else', () => {
  const sections = [...page.matchAll(/^### (\w+)$/gm)].map(([, name]) => name);
  expect(sections).toEqual(alerts.map(({ alert }) => alert));
  for (const { alert, labels, annotations } of alerts) {
    expect(['page', 'ticket'], alert).toContain(labels.severity);
    expect(annotations.runbook_url).toBe(`docs/operate/alerts.md#${alert.toLowerCase()}`);
  }
});
