import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeApiKey } from '../../../shared/crypto/api-key.ts';
import { describeSettings } from '../../../shared/runtime/describe-settings.ts';
import {
  type Environment,
  ignoredSettings,
  originOf,
  parseSettings,
  parseSidecarSettings,
  SettingsError,
  settings,
} from '../../../shared/runtime/settings.ts';

const masterKey = Buffer.alloc(32, 7).toString('base64url');
const key = makeApiKey('live', Buffer.alloc(32, 7));

function problemsOf(parse: () => unknown): readonly string[] {
  try {
    parse();
  } catch (error) {
    if (error instanceof SettingsError) return error.problems;
    throw error;
  }
  return [];
}
const controlPlane = (environment: Environment) => parseSettings(['control-plane'], environment);

describe('parseSettings', () => {
  it('reads a value of each setting', () => {
    const given = {
      ...{ PORT: '1', HOST: '0.0.0.0', SIDECAR_PORT: '65535', SIDECAR_HOST: '::1', DATA_DIR: '/data' },
      ...{ DATABASE_URL: 'postgres://user:pass@db:5432/trust', DATABASE_CONNECTIONS: '10' },
      ...{ DATABASE_READ_URL: 'postgres://user:pass@replica:5432/trust', BACKGROUND_CONVERSIONS: '0' },
      ...{ RECORDS_V2_AFTER_S: '0', REDIS_URL: 'rediss://cache:6380', ADMIN_API_KEY: key },
      ...{ CONTROL_PLANE_URL: 'http://control-plane:8080', SIDECAR_API_KEY: `at_live_${'a'.repeat(128)}` },
      ...{ SIDECAR_THREADS: '4', SPOOL_FSYNC_MS: '0', SPOOL_KEEP_SHIPPED_S: '3600', MASTER_KEY: masterKey },
      ...{ MASTER_KEY_FALLBACKS: `${masterKey}, ${masterKey}`, PUBLIC_URL: 'https://trust.example.com/' },
      ...{ GATE_HOST: 'https://gates.example.com:444', WEBHOOK_ALLOW_PRIVATE: '1' },
      ...{ LOG_WITNESSES: '/etc/agent-trust/log.policy', SMTP_URL: 'smtps://robot:p%40ss@mail.example.com' },
      ...{ SMTP_FROM: 'approvals@example.com', MCP_API_KEYS: '1', SESSION_IDLE_S: '600' },
      ...{ SESSION_MAX_S: '3600', OIDC_ISSUER: 'https://login.example.com/realms/staff' },
      ...{ OIDC_CLIENT_ID: 'agent-trust', OIDC_CLIENT_SECRET: 'a secret of the provider' },
      ...{ OIDC_NAME: 'Example Login', OIDC_ALLOW_PRIVATE: '1', FORWARD_AUTH_TRUST: 'none' },
      ...{ FORWARD_AUTH_HEADERS: 'X-Forwarded-Method, X-Gate-Amount', SIDECAR_HTTP: 'node' },
      ...{ DRAIN_GRACE_MS: '5000', LOG_LEVEL: 'silent' },
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318',
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces',
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://collector:4318/v1/metrics',
      ...{ OTEL_EXPORTER_OTLP_HEADERS: 'api-key=secret', OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' },
      ...{ OTEL_TRACES_EXPORTER: 'none', OTEL_METRICS_EXPORTER: 'none', OTEL_TRACES_SAMPLER: 'always_off' },
      ...{ OTEL_TRACES_SAMPLER_ARG: '0.5', OTEL_METRIC_EXPORT_INTERVAL: '1000', OTEL_SERVICE_NAME: 'trust' },
      ...{ OTEL_RESOURCE_ATTRIBUTES: 'a=b', OTEL_SDK_DISABLED: 'true' },
    };
    const inPlaceOfOthers = { MASTER_KEY_COMMAND: '["/usr/bin/kms", "two words"]' };
    expect(Object.keys({ ...given, ...inPlaceOfOthers }).sort()).toEqual(Object.keys(settings).sort());
    expect(parseSettings(['control-plane', 'sidecar'], inPlaceOfOthers)).toMatchObject({
      MASTER_KEY_COMMAND: ['/usr/bin/kms', 'two words'],
    });
    expect(parseSettings(['control-plane', 'sidecar'], given)).toEqual({
      ...given,
      ...{ MASTER_KEY_COMMAND: null, MASTER_KEY_FALLBACKS: [Buffer.alloc(32, 7), Buffer.alloc(32, 7)] },
      ...{ PORT: 1, DATABASE_CONNECTIONS: 10 },
      ...{ BACKGROUND_CONVERSIONS: false, RECORDS_V2_AFTER_S: 0, SIDECAR_PORT: 65535, SIDECAR_THREADS: 4 },
      ...{ SPOOL_FSYNC_MS: 0, SPOOL_KEEP_SHIPPED_S: 3600, DRAIN_GRACE_MS: 5000, SESSION_IDLE_S: 600 },
      ...{ SESSION_MAX_S: 3_600, MASTER_KEY: Buffer.alloc(32, 7), PUBLIC_URL: 'https://trust.example.com' },
      LOG_WITNESSES: '/etc/agent-trust/log.policy',
      SMTP_URL: { host: 'mail.example.com', port: 465, user: 'robot', password: 'p@ss', tls: 'implicit' },
      ...{ SMTP_FROM: 'approvals@example.com', WEBHOOK_ALLOW_PRIVATE: true, OIDC_ALLOW_PRIVATE: true },
      ...{ MCP_API_KEYS: true, FORWARD_AUTH_HEADERS: ['x-forwarded-method', 'x-gate-amount'] },
    });
  });

  it.each([
    ['PORT', '65536'],
    ['PORT', '80.5'],
    ['DATABASE_CONNECTIONS', '9'],
    ['ADMIN_API_KEY', `at_live_${'a'.repeat(31)}`],
    ['ADMIN_API_KEY', `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`],
    ['MASTER_KEY', `${masterKey}=`],
    ['MASTER_KEY_FALLBACKS', `${masterKey},`],
    ['MASTER_KEY_FALLBACKS', Array(5).fill(masterKey).join()],
    ['PUBLIC_URL', 'https://trust.example.com/v1'],
    ['PUBLIC_URL', 'https://trust.example.com\\@evil.example'],
    ['GATE_HOST', 'http://127.1:8090'],
    ['GATE_HOST', 'gates.example.com'],
    ['OIDC_NAME', 'Example\u202eLogin'],
    ['LOG_LEVEL', 'verbose'],
  ] as const)('refuses %s=%s and names the setting', (name, value) => {
    const problems = problemsOf(() => controlPlane({ MASTER_KEY: masterKey, [name]: value }));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^${name} must `));
  });

  it.each([
    ['CONTROL_PLANE_URL', 'http://control-plane:8080/v1'],
    ['SIDECAR_API_KEY', `at_test_${'a'.repeat(40)}`],
    ['SPOOL_KEEP_SHIPPED_S', '2592001'],
    ['FORWARD_AUTH_TRUST', 'everybody'],
    ['FORWARD_AUTH_HEADERS', 'X-Forwarded-Host,Authorization'],
  ] as const)('refuses %s=%s for a sidecar', (name, value) => {
    const environment = { CONTROL_PLANE_URL: 'http://127.0.0.1:8080', SIDECAR_API_KEY: key, [name]: value };
    expect(problemsOf(() => parseSidecarSettings(environment))).toEqual([
      expect.stringMatching(`^${name} m`),
    ]);
  });

  it('reports every problem at once', () => {
    const problems = problemsOf(() =>
      controlPlane({ PORT: 'x', LOG_LEVEL: 'loud', DATABASE_URL: 'postgres://db/trust', GATE_HOST: 'x' }),
    );
    expect(problems.map((problem) => problem.split(' ')[0])).toEqual([
      'PORT',
      'GATE_HOST',
      'LOG_LEVEL',
      'MASTER_KEY',
    ]);
  });

  it('never repeats the text of a secret', () => {
    for (const [name, row] of Object.entries(settings)) {
      if (!row.isSecret) continue;
      const problems = problemsOf(() => parseSidecarSettings({ [name]: 's3cret' }));
      expect([...problems, ...problemsOf(() => controlPlane({ [name]: 's3cret' }))].join()).not.toContain(
        's3cret',
      );
    }
  });

  it.each(['/usr/bin/kms', '[]', '["kms", 1]', 'null'])(
    'refuses the command %s: it is no JSON array of texts',
    (command) => {
      expect(problemsOf(() => controlPlane({ MASTER_KEY_COMMAND: command }))).toEqual([
        expect.stringMatching(/^MASTER_KEY_COMMAND must be a JSON array of texts/),
      ]);
    },
  );

  it('refuses MASTER_KEY beside its command', () => {
    const given = { MASTER_KEY: masterKey, MASTER_KEY_COMMAND: '["kms"]' };
    expect(problemsOf(() => controlPlane(given))).toEqual([
      'MASTER_KEY is given twice, by MASTER_KEY and by MASTER_KEY_COMMAND: unset one of them.',
    ]);
  });

  it('requires MASTER_KEY with DATABASE_URL, and only then', () => {
    expect(problemsOf(() => controlPlane({ DATABASE_URL: 'postgres://db/trust' }))).toEqual([
      expect.stringMatching(/^MASTER_KEY must be set/),
    ]);
    expect(problemsOf(() => controlPlane({ DATABASE_URL: '', MASTER_KEY: '' }))).toEqual([]);
    const command = { DATABASE_URL: 'postgres://db/trust', MASTER_KEY_COMMAND: '["kms"]' };
    expect(problemsOf(() => controlPlane(command))).toEqual([]);
  });

  it.each(['login.example.com', 'ftp://login.example.com', 'https://a@login.example.com'])(
    'refuses OIDC_ISSUER=%s',
    (issuer) => {
      const given = { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: 'id', OIDC_CLIENT_SECRET: 's3cret' };
      expect(problemsOf(() => controlPlane(given))).toEqual([expect.stringMatching(/^OIDC_ISSUER must be /)]);
    },
  );

  it('requires the settings of a provider together', () => {
    expect(problemsOf(() => controlPlane({ OIDC_ISSUER: 'https://login.example.com' }))).toEqual([
      'OIDC_CLIENT_ID must be set where OIDC_ISSUER is.',
      'OIDC_CLIENT_SECRET must be set where OIDC_ISSUER is.',
    ]);
    expect(problemsOf(() => controlPlane({ OIDC_CLIENT_ID: 'id', OIDC_CLIENT_SECRET: 's3cret' }))).toEqual([
      'OIDC_ISSUER must be set where OIDC_CLIENT_ID is.',
    ]);
  });

  it('requires the settings of a mail server together', () => {
    expect(problemsOf(() => controlPlane({ SMTP_URL: 'smtp://mail.example.com' }))).toEqual([
      'SMTP_FROM must be set where SMTP_URL is.',
    ]);
    const wrong = { SMTP_URL: 'smtp://robot@mail.example.com', SMTP_FROM: 'Robot <robot@example.com>' };
    expect(problemsOf(() => controlPlane(wrong))).toEqual([
      'SMTP_URL must have both user and password, or neither.',
      expect.stringMatching(/^SMTP_FROM must be one e-mail address/),
    ]);
  });

  it('requires CONTROL_PLANE_URL for a sidecar on its own', () => {
    expect(problemsOf(() => parseSidecarSettings({}))).toEqual([
      expect.stringMatching(/^CONTROL_PLANE_URL must be set/),
      expect.stringMatching(/^SIDECAR_API_KEY must be set/),
    ]);
  });
});

describe('AGENT_TRUST_<NAME>', () => {
  it('wins over the bare name, and is named in an error', () => {
    expect(controlPlane({ PORT: '1', AGENT_TRUST_PORT: '2' }).PORT).toBe(2);
    expect(controlPlane({ AGENT_TRUST_DATA_DIR: '/a' }).DATA_DIR).toBe('/a');
    expect(problemsOf(() => controlPlane({ PORT: '1', AGENT_TRUST_PORT: 'x' }))).toEqual([
      'AGENT_TRUST_PORT must be a whole number from 0 to 65535, not "x".',
    ]);
  });

  it('counts as not given while it is empty', () => {
    expect(controlPlane({ PORT: '1', AGENT_TRUST_PORT: '' }).PORT).toBe(1);
  });

  it('keeps a name that an orchestrator injects from being read', () => {
    const environment = { SIDECAR_PORT: 'tcp://10.0.0.7:8090', AGENT_TRUST_SIDECAR_PORT: '8090' };
    expect(parseSettings(['control-plane', 'sidecar'], environment).SIDECAR_PORT).toBe(8090);
  });

  it('is an error where there is no such setting, each one named', () => {
    const none = { AGENT_TRUST_DATADIR: '/a', AGENT_TRUST_PORT_FILE: '/a', AGENT_TRUST_CONSTRUCTOR: 'x' };
    expect(problemsOf(() => controlPlane({ ...none, LOG_LEVEL: 'loud' }))).toEqual([
      expect.stringMatching(/^LOG_LEVEL must/),
      'AGENT_TRUST_CONSTRUCTOR is not a setting; --help lists all settings.',
      'AGENT_TRUST_DATADIR is not a setting; --help lists all settings.',
      'AGENT_TRUST_PORT_FILE is not supported: PORT is not a secret, and only secrets are read from files.',
    ]);
  });

  it.each(['tcp://10.0.0.1:8090', 'udp://10.0.0.1:53', 'tcp://[fd00::1]:8090', 'sctp://10.1.2.3:1'])(
    'ignores SIDECAR_PORT=%s, which Kubernetes sets for a Service called sidecar, and names it',
    (address) => {
      const environment = { SIDECAR_PORT: address, PORT: '1' };
      expect(parseSettings(['control-plane', 'sidecar'], environment)).toMatchObject({
        SIDECAR_PORT: 8090,
        PORT: 1,
      });
      expect(ignoredSettings(environment)).toEqual(['SIDECAR_PORT']);
      expect(describeSettings(['sidecar'], environment)).not.toContain(address);
    },
  );

  it.each([
    ['SIDECAR_PORT', 'tcp://10.0.0.1'],
    ['PORT', 'tcp://10.0.0.1:8080'],
    ['SIDECAR_THREADS', 'tcp://10.0.0.1:8080'],
  ])('refuses %s=%s: nobody but the operator sets that', (name, value) => {
    const environment = { [name]: value };
    expect(problemsOf(() => parseSettings(['control-plane', 'sidecar'], environment))).toHaveLength(1);
    expect(ignoredSettings(environment)).toEqual([]);
  });

  it.each([
    ['AGENT_TRUST_SIDECAR_PORT', 'agent-trust-sidecar'],
    ['AGENT_TRUST_PORT', 'agent-trust'],
  ])('refuses the address of a Service in %s and says who sets it', (name, service) => {
    const problems = problemsOf(() =>
      parseSettings(['control-plane', 'sidecar'], { [name]: 'tcp://10.0.0.1:80' }),
    );
    expect(problems).toEqual([
      expect.stringMatching(
        new RegExp(`^${name} must be .* for a Service called ${service}; set enableServiceLinks: false`),
      ),
    ]);
  });

  it('leaves the variables of the commands alone, and settings of the other program', () => {
    const environment = {
      AGENT_TRUST_API_KEY: 'x',
      AGENT_TRUST_WEBHOOK_SECRET: 'x',
      AGENT_TRUST_SIDECAR_THREADS: 'x',
      AGENT_TRUST_SIDECAR_API_KEY_FILE: '/nowhere',
    };
    expect(problemsOf(() => controlPlane(environment))).toEqual([]);
  });
});

describe('<NAME>_FILE of a secret', () => {
  const folder = mkdtempSync(join(tmpdir(), 'settings-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const file = (content: string): string => {
    const path = join(folder, String(Math.random()));
    writeFileSync(path, content);
    return path;
  };
  const sidecar = (environment: Environment) =>
    parseSidecarSettings({ CONTROL_PLANE_URL: 'http://127.0.0.1:8080', ...environment });

  it.each([key, `${key}\n`, `${key}\r\n`])(
    'holds the value, with or without a line break at its end',
    (content) => {
      expect(sidecar({ SIDECAR_API_KEY_FILE: file(content) }).SIDECAR_API_KEY).toBe(key);
      expect(sidecar({ AGENT_TRUST_SIDECAR_API_KEY_FILE: file(content) }).SIDECAR_API_KEY).toBe(key);
    },
  );

  it('serves every secret, and satisfies what must be set', () => {
    const secrets = Object.entries(settings).filter(([, row]) => row.isSecret);
    const values: Record<string, string> = {
      DATABASE_URL: 'postgres://user:pass@db/trust',
      ...{ DATABASE_READ_URL: 'postgres://user:pass@replica/trust', REDIS_URL: 'redis://cache' },
      ...{ ADMIN_API_KEY: key, SIDECAR_API_KEY: key, MASTER_KEY: masterKey, MASTER_KEY_FALLBACKS: masterKey },
      ...{ OIDC_CLIENT_SECRET: 'a secret of the provider', SMTP_URL: 'smtp://localhost:25' },
      OTEL_EXPORTER_OTLP_HEADERS: 'api-key=secret',
    };
    const environment = {
      ...Object.fromEntries(secrets.map(([name]) => [`${name}_FILE`, file(`${values[name]}\n`)] as const)),
      OIDC_ISSUER: 'https://login.example.com',
      OIDC_CLIENT_ID: 'agent-trust',
      SMTP_FROM: 'approvals@example.com',
    };
    const read = parseSettings(['control-plane', 'sidecar'], environment);
    const keys: Record<string, unknown> = {
      MASTER_KEY: Buffer.alloc(32, 7),
      MASTER_KEY_FALLBACKS: [Buffer.alloc(32, 7)],
      SMTP_URL: { host: 'localhost', port: 25, user: null, password: null, tls: 'none' },
    };
    for (const [name] of secrets) expect(read).toHaveProperty(name, keys[name] ?? values[name]);
  });

  it.each([
    ['', /which is empty/],
    ['\n', /which holds only white space/],
    [` ${key}`, /which has white space before or after the value/],
    [`${key}\n\n`, /which must hold one line and holds several/],
    ['x'.repeat(70_000), /which is over 65536 bytes long/],
    ['s3cret', /^SIDECAR_API_KEY_FILE must be at_live_.*\(read from /],
  ])('is refused, by name and without its content, where it holds %j', (content, message) => {
    const path = file(content);
    const problems = problemsOf(() => sidecar({ SIDECAR_API_KEY_FILE: path }));
    expect(problems).toEqual([expect.stringMatching(message)]);
    expect(problems[0]).toMatch(/^SIDECAR_API_KEY/);
    expect(problems[0]).toContain(path);
    if (content.trim() !== '') expect(problems[0]).not.toContain(content.trim());
  });

  it('is refused where it is missing or a folder', () => {
    expect(problemsOf(() => sidecar({ SIDECAR_API_KEY_FILE: join(folder, 'none') }))).toEqual([
      `SIDECAR_API_KEY is read from ${folder}/none (SIDECAR_API_KEY_FILE), which cannot be read (ENOENT).`,
    ]);
    expect(problemsOf(() => sidecar({ SIDECAR_API_KEY_FILE: folder }))[0]).toMatch(/\(EISDIR\)/);
  });

  it('is refused beside the value, but not beside one that the prefix overrules', () => {
    expect(problemsOf(() => sidecar({ SIDECAR_API_KEY: key, SIDECAR_API_KEY_FILE: file(key) }))).toEqual([
      'SIDECAR_API_KEY is given twice, by SIDECAR_API_KEY and by SIDECAR_API_KEY_FILE: unset one of them.',
    ]);
    const both = { SIDECAR_API_KEY: 'x', SIDECAR_API_KEY_FILE: '/none', AGENT_TRUST_SIDECAR_API_KEY: key };
    expect(sidecar(both).SIDECAR_API_KEY).toBe(key);
  });

  it('is shown in the help by its name', () => {
    const path = file(key);
    const help = describeSettings(['sidecar'], { SIDECAR_API_KEY_FILE: path });
    expect(help).toContain(`(in ${path}, not shown)`);
    expect(help).not.toContain(key);
  });
});

describe('describeSettings', () => {
  it('shows every setting of the program and no secret', () => {
    const help = describeSettings(['sidecar'], { SIDECAR_API_KEY: key, SIDECAR_PORT: '9999' });
    expect(help).toContain('SIDECAR_API_KEY');
    expect(help).toContain('(set, not shown)');
    expect(help).not.toContain(key);
    expect(help).toContain('[8090; now 9999]');
    expect(help).not.toContain('MASTER_KEY');
  });
});

describe('originOf', () => {
  it.each([
    ['127.0.0.1', 'http://127.0.0.1:80'],
    ['0.0.0.0', 'http://127.0.0.1:80'],
    ['::1', 'http://[::1]:80'],
    ['trust.local', 'http://trust.local:80'],
  ])('reaches a server on %s at %s', (host, origin) => {
    expect(originOf({ host, port: 80 })).toBe(origin);
  });
});
