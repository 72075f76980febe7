# SPDX-License-Identifier: MIT
dist_man_MANS += man/forkctl.1 man/libforkclient.3
