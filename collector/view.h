/* kymo-collector view DIR...: the page and its API over directories of tables, without a store and without a receiver.
 */
#ifndef KYMO_COLLECTOR_VIEW_H
#define KYMO_COLLECTOR_VIEW_H

#define VIEW_PROFILES_MAX 4096

int view_main(int argc, char **argv);

#endif
