# SPDX-License-Identifier: MIT
dist_noinst_SCRIPTS += \
	contrib/check \
	contrib/install-packages \
	contrib/quickstart
dist_noinst_DATA += contrib/packages
EXTRA_DIST += .ci/run
