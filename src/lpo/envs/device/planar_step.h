// One world of a planar body, STEPS physics steps long: MuJoCo's equations, written out for the plane y = 0.
//
// `planar_physics.py` puts the numbers of the model before this text (capitals) and makes it the body of a
// function of (world, qpos, qvel, warmstart, ctrl, and the same three after it). One thread steps one world, so
// nothing is shared, and the same state gives the same bits.
//
// A body b has one hinge (dof HINGE[b], about +y where SIGN[b] = 1); body 0 has slides before it. Angles turn z
// towards x: a turn by φ takes (x, z) to (x cos φ + z sin φ, z cos φ − x sin φ), and a hinge that turns by ω
// moves a point at (rx, rz) from it by ω (rz, −rx).

float q[NV], v[NV], x[NV], push[NV];  // x: accelerations, first where the solver starts, then the answer
for (int i = 0; i < NV; ++i) {
    q[i] = qpos.data[world * NV + i];
    v[i] = qvel.data[world * NV + i];
    x[i] = warmstart.data[world * NV + i];
    push[i] = 0.0f;
}
#pragma unroll
for (int k = 0; k < NU; ++k) {
    float u = ctrl.data[world * NU + k];
    push[DRIVES[k]] += GEAR[k] * (u < LOW[k] ? LOW[k] : u > HIGH[k] ? HIGH[k] : u);
}

#pragma unroll 1
for (int step = 0; step < STEPS; ++step) {
    float q0[NV], v0[NV], mean_v[NV], mean_a[NV], M[NV][NV];
    #pragma unroll
    for (int i = 0; i < NV; ++i) { q0[i] = q[i]; v0[i] = v[i]; mean_v[i] = 0.0f; mean_a[i] = 0.0f; }

    #pragma unroll 1
    for (int stage = 0; stage < STAGES; ++stage) {  // one for Euler, four for Runge and Kutta
        if (stage > 0) {
            float part = stage == 3 ? TIMESTEP : 0.5f * TIMESTEP;
            #pragma unroll
            for (int i = 0; i < NV; ++i) { q[i] = q0[i] + part * v[i]; v[i] = v0[i] + part * x[i]; }
        }

        // ---- Where the bodies are, and how they would accelerate if no joint did.
        float ax[NB], az[NB];                        // the hinge
        float px[NB], pz[NB], cs[NB], sn[NB];        // the body's frame
        float about[NB], sx[NB], sz[NB];             // inertia and first moment about the hinge, of b and its children
        float fx[NB], fz[NB], torque[NB];            // what holds them on that course, about the hinge
        {
            float angle[NB], w[NB], bx[NB], bz[NB];
            #pragma unroll
            for (int b = 0; b < NB; ++b) {
                int p = PARENT[b];
                float hx = PLACE_X[b] + JOINT_X[b], hz = PLACE_Z[b] + JOINT_Z[b], jx, jz;
                if (b == 0) {
                    #pragma unroll
                    for (int k = 0; k < NS; ++k) {
                        hx += SLIDE_X[k] * (q[k] - REST[k]);
                        hz += SLIDE_Z[k] * (q[k] - REST[k]);
                    }
                    ax[b] = hx; az[b] = hz; angle[b] = 0.0f; w[b] = 0.0f; jx = 0.0f; jz = 0.0f;
                } else {
                    float rx = cs[p] * hx + sn[p] * hz, rz = cs[p] * hz - sn[p] * hx;
                    ax[b] = px[p] + rx; az[b] = pz[p] + rz; angle[b] = angle[p]; w[b] = w[p];
                    jx = bx[p] - w[p] * w[p] * rx; jz = bz[p] - w[p] * w[p] * rz;
                }
                angle[b] += SIGN[b] * (q[HINGE[b]] - REST[HINGE[b]]);
                w[b] += SIGN[b] * v[HINGE[b]];
                cs[b] = wp::cos(angle[b]); sn[b] = wp::sin(angle[b]);
                float ox = -(cs[b] * JOINT_X[b] + sn[b] * JOINT_Z[b]), oz = -(cs[b] * JOINT_Z[b] - sn[b] * JOINT_X[b]);
                px[b] = ax[b] + ox; pz[b] = az[b] + oz;
                float ww = w[b] * w[b];
                bx[b] = jx - ww * ox; bz[b] = jz - ww * oz;
                float gx = cs[b] * MID_X[b] + sn[b] * MID_Z[b], gz = cs[b] * MID_Z[b] - sn[b] * MID_X[b];
                fx[b] = MASS[b] * (bx[b] - ww * gx - GRAVITY_X);
                fz[b] = MASS[b] * (bz[b] - ww * gz - GRAVITY_Z);
                float rx = ox + gx, rz = oz + gz;  // from the hinge to the centre of mass
                about[b] = INERTIA[b] + MASS[b] * (rx * rx + rz * rz);
                sx[b] = MASS[b] * rx; sz[b] = MASS[b] * rz;
                torque[b] = rz * fx[b] - rx * fz[b];
            }
        }
        #pragma unroll
        for (int b = NB - 1; b > 0; --b) {
            int p = PARENT[b];
            float dx = ax[b] - ax[p], dz = az[b] - az[p];
            about[p] += about[b] + 2.0f * (dx * sx[b] + dz * sz[b]) + BRANCH[b] * (dx * dx + dz * dz);
            sx[p] += sx[b] + BRANCH[b] * dx; sz[p] += sz[b] + BRANCH[b] * dz;
            fx[p] += fx[b]; fz[p] += fz[b];
            torque[p] += torque[b] + dz * fx[b] - dx * fz[b];
        }

        // ---- The mass matrix (lower half) and all forces but those of constraints.
        float smooth[NV];
        #pragma unroll
        for (int i = 0; i < NV; ++i) {
            smooth[i] = push[i] - DAMPING[i] * v[i] - STIFFNESS[i] * (q[i] - SPRING[i]);
            #pragma unroll
            for (int j = 0; j <= i; ++j) M[i][j] = 0.0f;
        }
        #pragma unroll
        for (int k = 0; k < NS; ++k) {
            smooth[k] -= SLIDE_X[k] * fx[0] + SLIDE_Z[k] * fz[0];
            #pragma unroll
            for (int j = 0; j <= k; ++j) M[k][j] = BRANCH[0] * (SLIDE_X[k] * SLIDE_X[j] + SLIDE_Z[k] * SLIDE_Z[j]);
        }
        #pragma unroll
        for (int b = 0; b < NB; ++b) {
            smooth[HINGE[b]] -= SIGN[b] * torque[b];
            #pragma unroll
            for (int k = 0; k < NS; ++k) M[HINGE[b]][k] = SIGN[b] * (SLIDE_X[k] * sz[b] - SLIDE_Z[k] * sx[b]);
            #pragma unroll
            for (int c = 0; c <= b; ++c)
                if (ABOVE[b][c])
                    M[HINGE[b]][HINGE[c]] =
                        SIGN[b] * SIGN[c] * (about[b] + (ax[b] - ax[c]) * sx[b] + (az[b] - az[c]) * sz[b]);
        }
        #pragma unroll
        for (int i = 0; i < NV; ++i) M[i][i] += ARMATURE[i];

        // ---- Constraints. A row is J with J x ≥ aref; what it lacks costs D/2 times its square.
        float limit_d[NV], limit_sign[NV], limit_ref[NV];
        bool any = false;
        #pragma unroll
        for (int i = 0; i < NV; ++i) {
            limit_d[i] = 0.0f; limit_sign[i] = 1.0f; limit_ref[i] = 0.0f;
            if (LIMITED[i]) {
                float below = q[i] - LEAST[i], over = MOST[i] - q[i];
                limit_sign[i] = below < over ? 1.0f : -1.0f;
                float pos = (below < over ? below : over) - LIMIT_MARGIN[i];
                if (pos < 0.0f) {
                    float imp = LIMIT_IMP.at(pos);
                    float r = DOF_WEIGHT[i] * (1.0f - imp) / imp;
                    limit_d[i] = 1.0f / (r > 1e-15f ? r : 1e-15f);
                    limit_ref[i] = -LIMIT_IMP.b * limit_sign[i] * v[i] - LIMIT_IMP.k * imp * pos;
                    any = true;
                }
            }
        }
        // Of a contact: the normal's row n, the tangent's row t. A pyramid of friction has the rows n + μt, n − μt
        // and, as nothing moves along y, n twice. d_side is the D of the first two, d_mid that of the last two together.
        int contacts = 0;
        float n[NC][NV], t[NC][NV], mu[NC], d_side[NC], d_mid[NC], ref[NC][3];

        auto touch = [&](float dist, float margin, float weight, float friction, bool rough,
                         const Impedance& impedance) {
            float pos = dist - margin, imp = impedance.at(pos), vn = 0.0f, vt = 0.0f;
            int c = contacts++;
            #pragma unroll
            for (int i = 0; i < NV; ++i) { vn += n[c][i] * v[i]; vt += t[c][i] * v[i]; }
            float cone = rough ? weight * (1.0f + friction * friction) * 2.0f * friction * friction : weight;
            float r = cone * (1.0f - imp) / imp;
            float d = 1.0f / (r > 1e-15f ? r : 1e-15f);
            mu[c] = rough ? friction : 0.0f; d_side[c] = rough ? d : 0.0f; d_mid[c] = rough ? 2.0f * d : d;
            float pull = -impedance.k * imp * pos;
            ref[c][0] = pull - impedance.b * (vn + mu[c] * vt);
            ref[c][1] = pull - impedance.b * (vn - mu[c] * vt);
            ref[c][2] = pull - impedance.b * vn;
            any = true;
        };

        #pragma unroll
        for (int e = 0; e < NE; ++e) {  // ends of capsules on the floor
            int b = END_BODY[e];
            float ex = px[b] + cs[b] * END_X[e] + sn[b] * END_Z[e], ez = pz[b] + cs[b] * END_Z[e] - sn[b] * END_X[e];
            float dist = ez - END_RADIUS[e];
            if (dist < END_MARGIN[e]) {
                float cz = 0.5f * dist;  // halfway between the floor and the lowest point
                #pragma unroll
                for (int i = 0; i < NV; ++i) { n[contacts][i] = 0.0f; t[contacts][i] = 0.0f; }
                #pragma unroll
                for (int k = 0; k < NS; ++k) { n[contacts][k] = SLIDE_Z[k]; t[contacts][k] = SLIDE_X[k]; }
                #pragma unroll
                for (int c = 0; c <= b; ++c)
                    if (ABOVE[b][c]) {
                        n[contacts][HINGE[c]] = -SIGN[c] * (ex - ax[c]);
                        t[contacts][HINGE[c]] = SIGN[c] * (cz - az[c]);
                    }
                touch(dist, END_MARGIN[e], END_WEIGHT[e], END_FRICTION[e], END_ROUGH[e], END_IMP[e]);
            }
        }
        #pragma unroll 1
        for (int p = 0; p < NP; ++p) {  // capsules of the body with each other
            int b1 = PAIR_BODY[p][0], b2 = PAIR_BODY[p][1];
            const float* X = PAIR_X[p];
            const float* Z = PAIR_Z[p];
            const float* UX = PAIR_UX[p];
            const float* UZ = PAIR_UZ[p];
            float m1x = px[b1] + cs[b1] * X[0] + sn[b1] * Z[0], m1z = pz[b1] + cs[b1] * Z[0] - sn[b1] * X[0];
            float m2x = px[b2] + cs[b2] * X[1] + sn[b2] * Z[1], m2z = pz[b2] + cs[b2] * Z[1] - sn[b2] * X[1];
            float u1x = cs[b1] * UX[0] + sn[b1] * UZ[0], u1z = cs[b1] * UZ[0] - sn[b1] * UX[0];
            float u2x = cs[b2] * UX[1] + sn[b2] * UZ[1], u2z = cs[b2] * UZ[1] - sn[b2] * UX[1];
            // Half the segments are u1 and u2; the points nearest to each other are at weights in [−1, 1] of them.
            float aa = u1x * u1x + u1z * u1z, bb = u2x * u2x + u2z * u2z, ab = u1x * u2x + u1z * u2z;
            float gx = m2x - m1x, gz = m2z - m1z, ga = gx * u1x + gz * u1z, gb = gx * u2x + gz * u2z;
            float cross = u1x * u2z - u1z * u2x;
            int tries = cross * cross > 1e-8f * aa * bb ? 1 : 2;  // parallel ones may touch at both ends
            for (int k = 0; k < tries; ++k) {
                float s1 = tries == 2 ? (k == 0 ? -1.0f : 1.0f) : (gx * u2z - gz * u2x) / cross;
                s1 = s1 < -1.0f ? -1.0f : s1 > 1.0f ? 1.0f : s1;
                float s2 = (ab * s1 - gb) / bb;
                if (s2 < -1.0f || s2 > 1.0f) {
                    s2 = s2 < -1.0f ? -1.0f : 1.0f;
                    s1 = (ga + ab * s2) / aa;
                    s1 = s1 < -1.0f ? -1.0f : s1 > 1.0f ? 1.0f : s1;
                }
                float dx = gx + s2 * u2x - s1 * u1x, dz = gz + s2 * u2z - s1 * u1z;
                float far = wp::sqrt(dx * dx + dz * dz);
                float nx = far > 0.0f ? dx / far : 1.0f, nz = far > 0.0f ? dz / far : 0.0f;
                float dist = far - PAIR_RADIUS[p][0] - PAIR_RADIUS[p][1];
                if (dist < PAIR_MARGIN[p]) {
                    float reach = PAIR_RADIUS[p][0] + 0.5f * dist;
                    float cx = m1x + s1 * u1x + nx * reach, cz = m1z + s1 * u1z + nz * reach;
                    #pragma unroll
                    for (int i = 0; i < NV; ++i) { n[contacts][i] = 0.0f; t[contacts][i] = 0.0f; }
                    for (int c = 0; c < NB; ++c) {
                        float moved = (ABOVE[b2][c] ? 1.0f : 0.0f) - (ABOVE[b1][c] ? 1.0f : 0.0f);
                        float jx = moved * SIGN[c] * (cz - az[c]), jz = -moved * SIGN[c] * (cx - ax[c]);
                        n[contacts][HINGE[c]] = nx * jx + nz * jz;
                        t[contacts][HINGE[c]] = nz * jx - nx * jz;
                    }
                    touch(dist, PAIR_MARGIN[p], PAIR_WEIGHT[p], PAIR_FRICTION[p], PAIR_ROUGH[p], PAIR_IMP[p]);
                }
            }
        }

        // ---- The accelerations: Newton's method on a convex function that is quadratic in pieces.
        float A[NV][NV];
        auto solve = [&](float* y) {  // y ← A⁻¹ y, by Cholesky; A is lost
            #pragma unroll
            for (int i = 0; i < NV; ++i) {
                #pragma unroll
                for (int j = 0; j < i; ++j) {
                    float sum = A[i][j];
                    #pragma unroll
                    for (int k = 0; k < j; ++k) sum -= A[i][k] * A[j][k];
                    A[i][j] = sum * A[j][j];
                }
                float sum = A[i][i];
                #pragma unroll
                for (int k = 0; k < i; ++k) sum -= A[i][k] * A[i][k];
                A[i][i] = 1.0f / wp::sqrt(sum > 1e-15f ? sum : 1e-15f);  // the diagonal holds inverses
            }
            #pragma unroll
            for (int i = 0; i < NV; ++i) {
                #pragma unroll
                for (int k = 0; k < i; ++k) y[i] -= A[i][k] * y[k];
                y[i] *= A[i][i];
            }
            #pragma unroll
            for (int i = NV - 1; i >= 0; --i) {
                #pragma unroll
                for (int k = i + 1; k < NV; ++k) y[i] -= A[k][i] * y[k];
                y[i] *= A[i][i];
            }
        };
        auto copy_mass = [&](float* y, const float* z) {  // A ← M, y ← M z
            #pragma unroll
            for (int i = 0; i < NV; ++i) {
                y[i] = 0.0f;
                #pragma unroll
                for (int j = 0; j < NV; ++j) y[i] += (j <= i ? M[i][j] : M[j][i]) * z[j];
                #pragma unroll
                for (int j = 0; j <= i; ++j) A[i][j] = M[i][j];
            }
        };
        float force[NV];
        if (!any) {
            copy_mass(force, x);
            #pragma unroll
            for (int i = 0; i < NV; ++i) x[i] = smooth[i];
            solve(x);
        } else {
            float jn[NC], jt[NC], kn[NC], kt[NC], down[NV], slope[NV];
            unsigned long long before = ~0ull;
            bool full = false;
            #pragma unroll 1
            for (int round = 0; round < 50; ++round) {
                copy_mass(slope, x);
                #pragma unroll
                for (int i = 0; i < NV; ++i) { slope[i] -= smooth[i]; down[i] = slope[i]; }
                unsigned long long active = 0;
                #pragma unroll
                for (int i = 0; i < NV; ++i) {
                    float lack = limit_sign[i] * x[i] - limit_ref[i];
                    if (LIMITED[i] && limit_d[i] > 0.0f && lack < 0.0f) {
                        active |= 1ull << i;
                        down[i] += limit_sign[i] * limit_d[i] * lack;
                        A[i][i] += limit_d[i];
                    }
                }
                #pragma unroll 1
                for (int c = 0; c < contacts; ++c) {
                    float an = 0.0f, at = 0.0f;
                    #pragma unroll
                    for (int i = 0; i < NV; ++i) { an += n[c][i] * x[i]; at += t[c][i] * x[i]; }
                    jn[c] = an; jt[c] = at;
                    float r0 = an + mu[c] * at - ref[c][0], r1 = an - mu[c] * at - ref[c][1], r2 = an - ref[c][2];
                    float w0 = r0 < 0.0f ? d_side[c] : 0.0f, w1 = r1 < 0.0f ? d_side[c] : 0.0f;
                    float w2 = r2 < 0.0f ? d_mid[c] : 0.0f;
                    unsigned long long rows = (w0 > 0.0f) | (w1 > 0.0f) << 1 | (w2 > 0.0f) << 2;
                    active |= rows << (NV + 3 * c);
                    float nn = w0 + w1 + w2, nt = mu[c] * (w0 - w1), tt = mu[c] * mu[c] * (w0 + w1);
                    float gn = w0 * r0 + w1 * r1 + w2 * r2, gt = mu[c] * (w0 * r0 - w1 * r1);
                    #pragma unroll
                    for (int i = 0; i < NV; ++i) {
                        float yn = nn * n[c][i] + nt * t[c][i], yt = nt * n[c][i] + tt * t[c][i];
                        down[i] += gn * n[c][i] + gt * t[c][i];
                        #pragma unroll
                        for (int j = 0; j <= i; ++j) A[i][j] += yn * n[c][j] + yt * t[c][j];
                    }
                }
                if (full && active == before) break;  // the last step ended at the bottom of this piece
                before = active;
                #pragma unroll
                for (int i = 0; i < NV; ++i) { force[i] = down[i]; down[i] = -down[i]; }
                solve(down);
                float gain = 0.0f;
                #pragma unroll
                for (int i = 0; i < NV; ++i) gain -= force[i] * down[i];
                if (0.5f * gain * SCALE < TOLERANCE) break;

                // Along the step the slope rises in pieces: find where it is 0, by Newton's method within bounds.
                copy_mass(force, down);
                float first = 0.0f, bend = 0.0f;
                #pragma unroll
                for (int i = 0; i < NV; ++i) { first += down[i] * slope[i]; bend += down[i] * force[i]; }
                #pragma unroll 1
                for (int c = 0; c < contacts; ++c) {
                    float an = 0.0f, at = 0.0f;
                    #pragma unroll
                    for (int i = 0; i < NV; ++i) { an += n[c][i] * down[i]; at += t[c][i] * down[i]; }
                    kn[c] = an; kt[c] = at;
                }
                float far = 1.0f, least = 0.0f, most = 1e30f;
                #pragma unroll 1
                for (int go = 0; go < 30; ++go) {
                    float rise = first + far * bend, curve = bend;
                    #pragma unroll
                    for (int i = 0; i < NV; ++i) {
                        float k = limit_sign[i] * down[i], lack = limit_sign[i] * x[i] - limit_ref[i] + far * k;
                        if (LIMITED[i] && lack < 0.0f) { rise += limit_d[i] * k * lack; curve += limit_d[i] * k * k; }
                    }
                    #pragma unroll 1
                    for (int c = 0; c < contacts; ++c) {
                        float ks[3] = {kn[c] + mu[c] * kt[c], kn[c] - mu[c] * kt[c], kn[c]};
                        float js[3] = {jn[c] + mu[c] * jt[c], jn[c] - mu[c] * jt[c], jn[c]};
                        #pragma unroll
                        for (int k = 0; k < 3; ++k) {
                            float lack = js[k] - ref[c][k] + far * ks[k], d = k < 2 ? d_side[c] : d_mid[c];
                            if (lack < 0.0f) { rise += d * ks[k] * lack; curve += d * ks[k] * ks[k]; }
                        }
                    }
                    if ((rise < 0.0f ? -rise : rise) <= 1e-5f * gain) break;
                    if (rise < 0.0f) least = far; else most = far;
                    float next = far - rise / curve;
                    far = next > least && next < most ? next : most < 1e30f ? 0.5f * (least + most) : 2.0f * far;
                }
                full = far == 1.0f;
                #pragma unroll
                for (int i = 0; i < NV; ++i) x[i] += far * down[i];
            }
        }

        float share = STAGES == 1 ? 1.0f : stage == 0 || stage == 3 ? 1.0f / 6.0f : 1.0f / 3.0f;
        #pragma unroll
        for (int i = 0; i < NV; ++i) { mean_v[i] += share * v[i]; mean_a[i] += share * x[i]; }
        if (STAGES == 1) {  // Euler takes the damping at the end of the step: (M + h B) a = M x
            copy_mass(mean_a, x);
            #pragma unroll
            for (int i = 0; i < NV; ++i) A[i][i] += TIMESTEP * DAMPING[i];
            solve(mean_a);
        }
    }
    #pragma unroll
    for (int i = 0; i < NV; ++i) {
        v[i] = v0[i] + TIMESTEP * mean_a[i];
        q[i] = q0[i] + TIMESTEP * (STAGES == 1 ? v[i] : mean_v[i]);
    }
}
for (int i = 0; i < NV; ++i) {
    qpos_after.data[world * NV + i] = q[i];
    qvel_after.data[world * NV + i] = v[i];
    warmstart_after.data[world * NV + i] = x[i];
}
