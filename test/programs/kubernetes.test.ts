import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Deployment, StatefulSet } from 'kubernetes-types/apps/v1.d.ts';
import type { Container, Probe, Service } from 'kubernetes-types/core/v1.d.ts';
import type { NetworkPolicy } from 'kubernetes-types/networking/v1.d.ts';
import type { PodDisruptionBudget } from 'kubernetes-types/policy/v1.d.ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { must } from '../../shared/errors/assert.ts';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { bundledPrograms, type Program } from '../support/programs/programs.ts';
import { sharedService } from '../support/run/shared-services.ts';

/** The manifests of deploy/kubernetes: their form, how they fit together, and that programs run by them. */
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
}

/** Where the types of each kind are. A kind that is not here fails the test of types. */
const groups: Readonly<Record<string, string>> = {
  Deployment: 'apps/v1',
  NetworkPolicy: 'networking/v1',
  PodDisruptionBudget: 'policy/v1',
  Service: 'core/v1',
  ServiceAccount: 'core/v1',
  StatefulSet: 'apps/v1',
};

let files: ReturnType<typeof temporaryFolder>;
let controlPlane: readonly Manifest[];
let server: readonly Manifest[];

const build = (kubectl: string, folder: string): readonly Manifest[] => {
  const built = spawnSync(kubectl, ['kustomize', folder], { encoding: 'utf8' });
  // Nothing is said of what is deprecated.
  expect(built).toMatchObject({ status: 0, stderr: '' });
  const text = built.stdout;
  return parseAllDocuments(text).map((each) => each.toJSON() as Manifest);
};

/** The only manifest of this kind. */
const only = <T>(of: readonly Manifest[], kind: string): T => {
  const found = of.filter((each) => each.kind === kind);
  expect(found.length, kind).toBe(1);
  return found[0] as T;
};

beforeAll(async () => {
  const kubectl = await sharedService('kubectl');
  files = temporaryFolder();
  controlPlane = build(kubectl, 'deploy/kubernetes');
  server = build(kubectl, 'deploy/kubernetes/sidecar');
});
afterAll(() => {
  files.remove();
});

/** What the compiler says to these manifests as literals of their types: unknown members are errors too. */
function typeErrors(manifests: readonly object[]): string {
  const folder = join(files.path, 'types');
  mkdirSync(folder, { recursive: true });
  const modules = join(folder, 'node_modules');
  try {
    symlinkSync(resolve('node_modules'), modules);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const lines = manifests.map((each, place) => {
    const { kind } = each as Manifest;
    const type = `import('kubernetes-types/${groups[kind]}').${kind}`;
    return `export const m${place}: ${type} = ${JSON.stringify(each)};`;
  });
  writeFileSync(join(folder, 'manifests.ts'), lines.join('\n'));
  const options = ['--noEmit', '--strict', '--module', 'esnext', '--moduleResolution', 'bundler'];
  try {
    const tsc = resolve('node_modules/typescript/bin/tsc');
    execFileSync(process.execPath, [tsc, ...options, '--types', '', 'manifests.ts'], {
      cwd: folder,
      stdio: 'pipe',
    });
    return '';
  } catch (error) {
    return String((error as { stdout?: Buffer }).stdout);
  }
}

it('has the form that Kubernetes expects, and the check would see a member that it does not know', () => {
  expect(typeErrors([...controlPlane, ...server])).toBe('');
  const wrong = structuredClone(only<Deployment>(controlPlane, 'Deployment'));
  Object.assign(must(wrong.spec?.template.spec?.containers[0], 'a container'), { readOnlyRoot: true });
  expect(typeErrors([wrong])).toContain('readOnlyRoot');
});

const podOf = (workload: Deployment | StatefulSet) =>
  must(workload.spec?.template.spec, `${workload.kind} has a pod`);
const controlPlaneContainer = (): Container =>
  must(podOf(only<Deployment>(controlPlane, 'Deployment')).containers[0], 'a container');
const sidecarContainer = (): Container =>
  must(podOf(only<StatefulSet>(server, 'StatefulSet')).initContainers?.[0], 'an init container');

const envOf = ({ env = [] }: Container): Record<string, string> =>
  Object.fromEntries(env.map(({ name, value }) => [name, must(value, `${name} has a value`)]));

describe('the parts fit together', () => {
  it('selects the pods of the workload', () => {
    for (const [manifests, kind] of [
      [controlPlane, 'Deployment'],
      [server, 'StatefulSet'],
    ] as const) {
      const workload = only<Deployment | StatefulSet>(manifests, kind);
      const labels = must(workload.spec?.template.metadata?.labels, 'labels');
      const selectors = [
        workload.spec?.selector.matchLabels,
        only<Service>(manifests, 'Service').spec?.selector,
        only<NetworkPolicy>(manifests, 'NetworkPolicy').spec?.podSelector.matchLabels,
      ];
      for (const selector of selectors) expect(labels).toMatchObject(must(selector, 'a selector'));
    }
  });

  it('leaves a replica when a node is drained, and none early', () => {
    const { replicas = 1, template } = must(only<Deployment>(controlPlane, 'Deployment').spec, 'spec');
    const budget = only<PodDisruptionBudget>(controlPlane, 'PodDisruptionBudget').spec;
    expect(budget?.minAvailable).toBeLessThan(replicas);
    const drainS = 10;
    const graceMs = Number(envOf(controlPlaneContainer())['AGENT_TRUST_DRAIN_GRACE_MS']);
    expect(template.spec?.terminationGracePeriodSeconds).toBeGreaterThan(graceMs / 1_000 + drainS);
  });

  it('starts the sidecar before the server, stops it after, and gives its spool a volume of its own', () => {
    const { spec } = only<StatefulSet>(server, 'StatefulSet');
    const sidecar = sidecarContainer();
    expect(sidecar).toMatchObject({ args: ['sidecar'], restartPolicy: 'Always' });
    const data = sidecar.volumeMounts?.find(
      ({ mountPath }) => mountPath === envOf(sidecar)['AGENT_TRUST_DATA_DIR'],
    );
    expect(spec?.volumeClaimTemplates?.map(({ metadata }) => metadata?.name)).toEqual([data?.name]);
  });

  it('gives both programs no root, no capability and no file system to write to but their volumes', () => {
    for (const container of [controlPlaneContainer(), sidecarContainer()]) {
      expect(container.securityContext).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
    }
    expect(podOf(only<Deployment>(controlPlane, 'Deployment')).securityContext).toMatchObject({
      runAsNonRoot: true,
      runAsUser: 1000,
    });
    expect(sidecarContainer().securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
  });

  it('mounts every folder that a setting names, from a volume of the pod', () => {
    const cases: readonly [Deployment | StatefulSet, Container][] = [
      [only<Deployment>(controlPlane, 'Deployment'), controlPlaneContainer()],
      [only<StatefulSet>(server, 'StatefulSet'), sidecarContainer()],
    ];
    for (const [workload, container] of cases) {
      const mounts = must(container.volumeMounts, 'mounts');
      const paths = Object.values(envOf(container)).filter((value) => value.startsWith('/'));
      expect(paths.length).toBeGreaterThan(0);
      for (const path of paths)
        expect(
          mounts.some(({ mountPath }) => path.startsWith(mountPath)),
          path,
        ).toBe(true);
      const claims =
        'volumeClaimTemplates' in must(workload.spec, 'spec')
          ? ((workload as StatefulSet).spec?.volumeClaimTemplates ?? [])
          : [];
      const volumes = [
        ...(podOf(workload).volumes ?? []).map(({ name }) => name),
        ...claims.map(({ metadata }) => metadata?.name),
      ];
      for (const { name } of mounts) expect(volumes).toContain(name);
    }
  });
});

describe('programs that run by the manifests', () => {
  let database: TestDatabase;
  const programs: Program[] = [];
  const adminKey = `at_live_${'k'.repeat(40)}`;

  /**
   * Starts the container's command with its settings, and each of its folders below a temporary one.
   * Resolves to its origin.
   */
  async function start(container: Container, secrets: Readonly<Record<string, string>>): Promise<string> {
    const root = join(files.path, container.name);
    const port = await freePort();
    for (const { mountPath } of container.volumeMounts ?? [])
      mkdirSync(join(root, mountPath), { recursive: true });
    const env = Object.entries(envOf(container)).map(([name, value]) => {
      if (value.startsWith('/')) return [name, join(root, value)] as const;
      if (name.endsWith('HOST') && value === '0.0.0.0') return [name, '127.0.0.1'] as const;
      if (name.endsWith('PORT')) return [name, String(port)] as const;
      if (name === 'AGENT_TRUST_CONTROL_PLANE_URL') return [name, origins.controlPlane] as const;
      return [name, value] as const;
    });
    for (const [name, secret] of Object.entries(secrets))
      writeFileSync(join(root, 'run/secrets/agent-trust', name), secret, { mode: 0o440 });
    programs.push((await bundledPrograms()).start(container.args ?? [], Object.fromEntries(env)));
    return `http://127.0.0.1:${port}`;
  }

  const probe = (origin: string, { httpGet }: Probe) => fetch(`${origin}${httpGet?.path}`);
  const isStarted = async (origin: string, { startupProbe }: Container): Promise<boolean> => {
    const answer = await probe(origin, must(startupProbe, 'a startup probe')).catch(() => null);
    return answer?.status === 200;
  };

  const origins = { controlPlane: '', sidecar: '' };

  beforeAll(async () => {
    database = await testDatabase();
    origins.controlPlane = await start(controlPlaneContainer(), {
      DATABASE_URL: database.url,
      MASTER_KEY: Buffer.alloc(32, 7).toString('base64url'),
      ADMIN_API_KEY: adminKey,
    });
    await until(() => isStarted(origins.controlPlane, controlPlaneContainer()), {
      what: 'the control plane',
    });
    const made = await call(`${origins.controlPlane}/v1/api-keys`, {
      key: adminKey,
      body: { name: 'sidecars', scopes: ['sidecars:connect'] },
    });
    origins.sidecar = await start(sidecarContainer(), { SIDECAR_API_KEY: made.body.key });
    await until(() => isStarted(origins.sidecar, sidecarContainer()), { what: 'the sidecar' });
  });
  afterAll(async () => {
    for (const each of programs.reverse()) await each.stop();
    await database?.drop();
  });

  it('answer the probes and permit', async () => {
    for (const [origin, container] of [
      [origins.controlPlane, controlPlaneContainer()],
      [origins.sidecar, sidecarContainer()],
    ] as const) {
      for (const each of [container.livenessProbe, container.readinessProbe])
        expect((await probe(origin, must(each, 'a probe'))).status).toBe(200);
    }
    const post = (path: string, body: object) =>
      call(`${origins.controlPlane}/v1${path}`, { key: adminKey, body });
    const gate = (await post('/gates', { name: 'Orders', trust_level: 'L1' })).body;
    const passport = (await post('/passports', { agent_id: 'agent', permissions: ['orders:create'] })).body;
    await until(
      async () => {
        const { body } = await call(`${origins.sidecar}/v1/gates/${gate.gate_id}/check`, {
          key: adminKey,
          body: { passport: passport.jwt, request: { permission_key: 'orders:create' } },
        });
        return body.decision === 'PERMIT';
      },
      { what: 'a PERMIT' },
    );
  });
});
